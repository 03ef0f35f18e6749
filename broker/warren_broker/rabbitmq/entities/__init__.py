"""Queues, exchanges and streams at the server: named, declared, measured, repaired."""
