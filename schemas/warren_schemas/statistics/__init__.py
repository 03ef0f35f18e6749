"""Statistics of evaluations: pure functions of numbers, the same for gateways and clients."""
