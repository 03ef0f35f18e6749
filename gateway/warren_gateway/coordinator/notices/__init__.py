"""What a run tells its owner unasked: that it learns nothing, that it stands still, what came of it."""
