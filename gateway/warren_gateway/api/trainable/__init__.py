"""Models that clients train by loops of their own, over HTTP."""
