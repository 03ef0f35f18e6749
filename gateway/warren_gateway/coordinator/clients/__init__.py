"""Models that a client drives through the training primitives: their requests become ops in its order."""
