"""Truncated importance sampling: the sampler's distribution corrected for by a bounded weight."""

from dataclasses import replace

import torch
from torch import Tensor

from warren_gpu_worker.losses.ratio import masked_ratio
from warren_gpu_worker.losses.tensors import TokenTensors
from warren_schemas.config import DroLoss, Loss


def truncated(
    tokens: TokenTensors, cap: float, loss: Loss
) -> tuple[TokenTensors, dict[str, Tensor]]:
    """A ← A · min(p_trainer / p_sampler, cap), and from here on the trainer's own p as p_sampler.

    Truncated importance sampling (Ionides 2008; Yao et al. 2025 for engines that disagree), the
    weight of decoupled PPO (Hilton et al. 2022, equation 3). The proximal policy is the one that the
    op finds: between two optimizer steps the weights stand still. So the loss starts at a ratio of
    1, where its clip doesn't act, and the cap bounds what an old or odd sample may weigh.

    DRO corrects nothing by a ratio. Its log-ratio is what leaving the sampler costs, so p_sampler
    stays: against the trainer's own p that would always be nothing.
    """
    with torch.no_grad():
        ratio_BT = masked_ratio(tokens).ratio_BT
        weights_BT = tokens.weights_BT * ratio_BT.clamp(max=cap)
        capped = {"tis_truncated:sum": (ratio_BT > cap).sum()}
    tokens = replace(tokens, weights_BT=weights_BT)
    if isinstance(loss, DroLoss):
        return tokens, capped
    return replace(tokens, sampler_logprobs_BT=tokens.logprobs_BT.detach()), capped
