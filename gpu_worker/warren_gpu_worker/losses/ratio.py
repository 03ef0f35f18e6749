"""The ratio between trainer and sampler, and what it says about how far apart they are."""

from dataclasses import dataclass

import torch
from torch import Tensor

from warren_gpu_worker.losses.tensors import TokenTensors


@dataclass(frozen=True, slots=True)
class MaskedRatio:
    """Ratio 1, logprob 0 and weight 0 outside the mask, so that sums need no mask any more."""

    logprobs_BT: Tensor
    log_ratio_BT: Tensor
    ratio_BT: Tensor
    weights_BT: Tensor


def masked_ratio(tokens: TokenTensors) -> MaskedRatio:
    """p_trainer / p_sampler of every token."""
    logprobs_BT = torch.where(tokens.mask_BT, tokens.logprobs_BT, 0.0)
    sampler_BT = torch.where(tokens.mask_BT, tokens.sampler_logprobs_BT, 0.0)
    weights_BT = torch.where(tokens.mask_BT, tokens.weights_BT, 0.0)
    log_ratio_BT = logprobs_BT - sampler_BT
    return MaskedRatio(logprobs_BT, log_ratio_BT, log_ratio_BT.exp(), weights_BT)


@torch.no_grad()
def ratio_diagnostics(tokens: TokenTensors) -> dict[str, Tensor]:
    """Sums over masked tokens.

    kl_k3 estimates KL(sampler || trainer) by r - 1 - log r (Schulman 2020, k3): never negative, and
    the first to jump when a run is about to collapse.
    """
    ratio = masked_ratio(tokens)
    ratio_M = ratio.ratio_BT[tokens.mask_BT].double()  # so that squares don't overflow
    log_ratio_M = ratio.log_ratio_BT[tokens.mask_BT].double()
    kl_k3_M = log_ratio_M.expm1() - log_ratio_M  # r - 1 would round what is near 0 below it
    return {
        "ratio:sum": ratio_M.sum(),
        "ratio:max": ratio_M.max(),
        "ratio_square:sum": ratio_M.square().sum(),
        "kl_k3:sum": kl_k3_M.sum(),
    }
