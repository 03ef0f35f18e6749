# pyright: reportUnknownMemberType=false
"""What a forward_backward reports.

Keys read `name:how to merge` (Tinker's convention), so that the results of several micro-batches
can be put together: sums add up, a mean is weighted by `tokens:sum`, of a maximum the largest counts.

loss:sum         the loss
tokens:sum       tokens under the mask
entropy:mean     of the trainer's distribution before it is truncated, in nats
nll:mean         negative logprob of the tokens (cross-entropy)
ratio:mean       p_trainer / p_sampler; 1 on policy
ratio:max
ess:mean         effective sample size over tokens, (Σr)² / (n Σr²); 1 on policy
kl_k3:mean       estimate of KL(sampler || trainer) in nats; the alarm to wire
clip_frac:mean   share of tokens that the clip touched (cispo) or took the gradient from (ppo, gspo)
kl_reference:mean   estimate of KL(trainer || reference) in nats, where there is a penalty
tis_truncated:mean  share of tokens whose weight was capped, where there is a cap
value:mean       what the critic expects, where there is one
return:mean      what it is trained towards
value_error:mean    square of their difference

An optim_step reports

grad_norm        norm of the gradient before it was clipped
learning_rate    as it was applied
"""

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

_SUM, _MAX, _MEAN = ":sum", ":max", ":mean"
_TOKENS, _LOSS = "tokens:sum", "loss:sum"


def merge(parts: list[dict[str, Tensor]]) -> dict[str, float]:
    """Scalars by `name:sum` or `name:max` over all micro-batches; one transfer from the device.

    Empty where there are no parts.
    """
    if not parts:
        return {}
    names = list(parts[0])
    table = torch.stack([torch.stack([part[n].double() for n in names]) for part in parts])
    sums = cast("list[float]", table.sum(0).tolist())
    maxima = cast("list[float]", table.amax(0).tolist())
    return {
        name: largest if name.endswith(_MAX) else total
        for name, total, largest in zip(names, sums, maxima, strict=True)
    }


def merge_ranks(ranks: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The same over all ranks; those that had no tokens are empty."""
    busy = [merged for merged in ranks if merged]
    return {
        name: (max if name.endswith(_MAX) else sum)(merged[name] for merged in busy)
        for name in busy[0]
    }


def report(merged: Mapping[str, float]) -> dict[str, float]:
    """The merged scalars as the table above."""
    n_tokens = merged[_TOKENS]
    metrics: dict[str, float] = {}
    for name, value in merged.items():
        stem = name.removesuffix(_SUM)
        if name in (_TOKENS, _LOSS) or name.endswith(_MAX):
            metrics[name] = value
        elif stem != "ratio_square":
            metrics[stem + _MEAN] = value / n_tokens
    if "ratio_square:sum" in merged:
        metrics["ess:mean"] = _ess(merged["ratio:sum"], merged["ratio_square:sum"]) / n_tokens
    return metrics


def _ess(total: float, total_square: float) -> float:
    """0 where every ratio is 0, as it is of tokens that the trainer holds to be impossible."""
    return total**2 / total_square if total_square else 0.0
