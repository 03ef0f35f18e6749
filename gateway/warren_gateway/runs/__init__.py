"""Runs as their owners see them, and what belongs to them: checkpoints, recordings, streams."""
