"""The training step: batches, logprobs, gradients, the optimizer."""
