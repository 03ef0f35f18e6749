"""What training costs: models that share a worker, memory, and the update against TRL's."""
