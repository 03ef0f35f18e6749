"""Surrogate with a soft gate."""

import torch

from warren_gpu_worker.losses.ratio import masked_ratio
from warren_gpu_worker.losses.tensors import LossValue, TokenTensors


def sapo(tokens: TokenTensors, tau_pos: float, tau_neg: float) -> LossValue:
    """L = -Σ 4/τ g A   with g = logistic(τ (r - 1)), r = p_trainer / p_sampler, τ by the sign of A

    Soft adaptive policy optimization, Gao et al. 2025 (arXiv 2511.20347). The gradient is that of r A
    times 4 g (1 - g), which is 1 at r = 1, falls to both sides, and is nowhere 0.
    """
    ratio = masked_ratio(tokens)
    tau_BT = torch.where(ratio.weights_BT > 0, tau_pos, tau_neg)
    gate_BT = torch.sigmoid(tau_BT * (ratio.ratio_BT - 1)) * 4 / tau_BT
    return LossValue(-(gate_BT * ratio.weights_BT).sum(), {})
