"""Losses over the tokens of padded sequences, each with its equation and source.

Shape legend: B sequences, T positions of the padded batch, M masked tokens. Every array refers to
the token at its own position: `logprobs_BT[b, t]` is the logprob of that token given those before.

Every loss is summed over masked tokens in the dtype of `logprobs_BT` (float32 in the trainer) and
normalizes nothing: whoever makes the batch has put the normalization into the weights. A position
outside the mask has no influence, whatever stands there.
"""

from warren_gpu_worker.losses.objective import Objective, compute_objective
from warren_gpu_worker.losses.tensors import LossValue, TokenTensors

__all__ = ["LossValue", "Objective", "TokenTensors", "compute_objective"]
