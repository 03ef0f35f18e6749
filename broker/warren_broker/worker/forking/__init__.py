"""Processes forked from one that has imported what they need: each starts in milliseconds and shares its memory."""
