"""Losses over the tokens of padded sequences, each with its equation and source.

Shape legend: B sequences, T positions of the padded batch, M masked tokens. Every array refers to
the token at its own position: `logprobs_BT[b, t]` is the logprob of that token given those before.

Every loss is summed over masked tokens in the dtype of `logprobs_BT` (float32 in the trainer) and
normalizes nothing: whoever makes the batch has put the normalization into the weights. A position
outside the mask has no influence, whatever stands there.
"""

from warren_gpu_worker.losses.cross_entropy import cross_entropy
from warren_gpu_worker.losses.importance_sampling import importance_sampling
from warren_gpu_worker.losses.ppo import ppo
from warren_gpu_worker.losses.value import LossValue, TokenTensors
from warren_schemas.config import CrossEntropyLoss, ImportanceSamplingLoss, Loss, PpoLoss

__all__ = ["LossValue", "TokenTensors", "compute_loss"]


def compute_loss(tokens: TokenTensors, loss: Loss) -> LossValue:
    """The loss that the config names."""
    match loss:
        case CrossEntropyLoss():
            return cross_entropy(tokens)
        case ImportanceSamplingLoss():
            return importance_sampling(tokens)
        case PpoLoss():
            return ppo(tokens, loss.clip_low, loss.clip_high)
