"""Truncated importance sampling: the sampler's distribution corrected for by a bounded weight."""

from dataclasses import replace

import torch
from torch import Tensor

from warren_gpu_worker.losses.ratio import masked_ratio
from warren_gpu_worker.losses.value import TokenTensors


def truncated(tokens: TokenTensors, cap: float) -> tuple[TokenTensors, dict[str, Tensor]]:
    """A ← A · min(p_trainer / p_sampler, cap), and from here on the trainer's own p as p_sampler.

    Truncated importance sampling (Ionides 2008; Yao et al. 2025 for engines that disagree), the
    weight of decoupled PPO (Hilton et al. 2022, equation 3). The proximal policy is the one that the
    op finds: between two optimizer steps the weights stand still. So the loss starts at a ratio of
    1, where its clip doesn't act, and the cap bounds what an old or odd sample may weigh.
    """
    with torch.no_grad():
        ratio_BT = masked_ratio(tokens).ratio_BT
        weights_BT = tokens.weights_BT * ratio_BT.clamp(max=cap)
        capped = {"tis_truncated:sum": (ratio_BT > cap).sum()}
    own_BT = tokens.logprobs_BT.detach()
    return replace(tokens, weights_BT=weights_BT, sampler_logprobs_BT=own_BT), capped
