"""What agents speak: each module reads a body into a `Question` and tells an `Answer` in its own manner."""
