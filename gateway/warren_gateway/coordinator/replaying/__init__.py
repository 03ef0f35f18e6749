"""Replays: the recordings of other runs, put together again and read no faster than they are consumed."""
