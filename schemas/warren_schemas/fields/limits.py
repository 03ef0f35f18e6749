"""Bounds that configs and messages share."""

MAX_KEPT = 256
"""Most tokens in one sampling mask: what a sampled token can weigh in a message."""
