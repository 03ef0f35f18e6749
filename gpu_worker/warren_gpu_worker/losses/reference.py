"""The KL penalty against the reference policy.

Invariant: a sequence's penalty depends on its own tokens alone, so any split into micro-batches
gives the same gradient.
"""

from dataclasses import replace

import torch
from torch import Tensor

from warren_gpu_worker.losses.tensors import TokenTensors
from warren_schemas.config import KlPenalty


def kl_estimate(log_ratio_BT: Tensor, estimator: str) -> Tensor:
    """Of KL(policy || reference) by token, from d = log p - log p_ref of sampled tokens.

    Schulman 2020: k1 = d is unbiased, k2 = d²/2 has the right gradient, k3 = exp(-d) - 1 + d is
    unbiased and never negative (what GRPO has, Shao et al. 2024, equation 4). That is so of tokens sampled
    from p. Of truncated samples, k2 and k3 are still 0 where d is 0, and above 0 elsewhere.
    """
    match estimator:
        case "k1":
            return log_ratio_BT
        case "k2":
            return 0.5 * log_ratio_BT.square()
        case "k3":
            return (-log_ratio_BT).exp() - 1 + log_ratio_BT
        case _:
            raise ValueError(f"no such estimator: {estimator}")


def masked_estimate(log_ratio_BT: Tensor, mask_BT: Tensor, estimator: str) -> Tensor:
    """The estimate under the mask, 0 elsewhere; carries the gradient."""
    return kl_estimate(torch.where(mask_BT, log_ratio_BT, 0.0), estimator)


def charge_rewards(tokens: TokenTensors, estimate_BT: Tensor, kl: KlPenalty) -> TokenTensors:
    """A_t ← A_t - β Σ_{t' ≥ t} k_t'   (Ziegler et al. 2019, equation 2, as a return to go)

    What a token leads to is charged to it, which is the gradient of the penalized reward.
    """
    costs_BT = estimate_BT.detach().flip(1).cumsum(1).flip(1)
    return replace(tokens, weights_BT=tokens.weights_BT - kl.coefficient * costs_BT)
