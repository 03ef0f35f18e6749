"""Talking to a gateway over HTTP."""
