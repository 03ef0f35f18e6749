"""Results of evaluations, computed from what the store keeps of their episodes."""
