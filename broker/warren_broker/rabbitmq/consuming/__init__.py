"""Deliveries from queues, homes, streams and topics."""
