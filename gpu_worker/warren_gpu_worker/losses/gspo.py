"""Clipped surrogate with one ratio for each sequence."""

import torch

from warren_gpu_worker.losses.ppo import lost_to_clipping
from warren_gpu_worker.losses.ratio import masked_ratio
from warren_gpu_worker.losses.tensors import LossValue, TokenTensors


def gspo(tokens: TokenTensors, clip_low: float, clip_high: float) -> LossValue:
    """L = -Σ min(s A, clamp(s, low, high) A)   with s = exp(mean over the sequence of log r)

    Group sequence policy optimization, Zheng et al. 2025, equations 5 and 7. The sum runs over the
    masked tokens, all of which share their sequence's s; weights of A / (length · sequences) give
    the paper's mean over sequences. A row of the batch is a sequence.
    """
    ratio = masked_ratio(tokens)
    lengths_B = tokens.mask_BT.sum(1).clamp(min=1)
    sequence_ratio_B = (ratio.log_ratio_BT.sum(1) / lengths_B).exp()
    ratio_BT = sequence_ratio_B[:, None].expand_as(ratio.weights_BT)
    weights_BT = ratio.weights_BT
    clipped_BT = ratio_BT.clamp(clip_low, clip_high)
    loss = -torch.minimum(ratio_BT * weights_BT, clipped_BT * weights_BT).sum()
    return LossValue(loss, lost_to_clipping(ratio_BT, weights_BT, clip_low, clip_high))
