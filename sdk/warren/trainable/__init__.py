"""Models that you train by a loop of your own: handles, futures, data."""
