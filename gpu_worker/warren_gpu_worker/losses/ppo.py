"""Clipped surrogate."""

import torch
from torch import Tensor

from warren_gpu_worker.losses.ratio import masked_ratio
from warren_gpu_worker.losses.tensors import LossValue, TokenTensors


def ppo(tokens: TokenTensors, clip_low: float, clip_high: float) -> LossValue:
    """L = -Σ min(r A, clamp(r, low, high) A)   with r = p_trainer / p_sampler

    Schulman et al. 2017, equation 7. The thresholds are ratios (0.8 and 1.28), Tinker's convention,
    which may lie asymmetrically around 1 (DAPO, Yu et al. 2025).
    """
    ratio = masked_ratio(tokens)
    ratio_BT, weights_BT = ratio.ratio_BT, ratio.weights_BT
    clipped_BT = ratio_BT.clamp(clip_low, clip_high)
    loss = -torch.minimum(ratio_BT * weights_BT, clipped_BT * weights_BT).sum()
    return LossValue(loss, lost_to_clipping(ratio_BT, weights_BT, clip_low, clip_high))


def lost_to_clipping(
    ratio_BT: Tensor, weights_BT: Tensor, clip_low: float, clip_high: float
) -> dict[str, Tensor]:
    """How many tokens have no gradient because the clip has the smaller value."""
    without_gradient_BT = ((ratio_BT > clip_high) & (weights_BT > 0)) | (
        (ratio_BT < clip_low) & (weights_BT < 0)
    )
    return {"clip_frac:sum": without_gradient_BT.sum()}
