"""Learning: from complete groups to ops in the model's log, and from their answers to a published policy."""
