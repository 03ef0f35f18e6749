"""The store: the truth about keys, runs, models, ops, groups of episodes, and what must be sent."""
