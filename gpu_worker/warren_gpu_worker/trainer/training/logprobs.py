# pyright: reportUnknownMemberType=false
"""Logprobs of chosen tokens, without keeping the logits of a large vocabulary.

Legend: M tokens, H hidden size, V vocabulary. Where [M, V] logits would be large they are made in
chunks and made again in the backward pass, so that only one chunk exists at a time.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    checkpoint,  # pyright: ignore[reportUnknownVariableType]
)

from warren_gpu_worker.trainer.training.sampled_from import SampledFrom

MAX_LOGITS = 32 * 1024 * 1024
"""Most float32 logits that exist at once: 128 MiB."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    logprobs_M: Tensor
    """float32 at least; carries the gradient."""
    entropy_M: Tensor
    """H = -Σ p ln p over the whole vocabulary (Shannon 1948), of each token's distribution p after penalty
    and temperature and before the sampler cut it; has a gradient if asked for (entropy bonus: Williams and
    Peng 1991). Over what was left it would draw nothing back that was cut, and of a single token it has no
    gradient at all."""


@dataclass(frozen=True, slots=True)
class Head:
    """What makes a distribution of hidden states."""

    module: nn.Module
    vocabulary: int
    max_logits: int = MAX_LOGITS
    has_entropy_gradient: bool = False


def token_logprobs(
    head: Head, hidden_MH: Tensor, ids_M: Tensor, sampled_from: SampledFrom
) -> TokenLogprobs:
    """Of the given ids, under the distributions that they were sampled from; float32 at least."""
    n_rows = max(1, head.max_logits // head.vocabulary)
    if ids_M.numel() <= n_rows:
        return TokenLogprobs(*_logprobs(head, hidden_MH, ids_M, sampled_from))
    places = [slice(at, at + n_rows) for at in range(0, ids_M.numel(), n_rows)]
    chunks = [
        _again_in_backward(head, hidden_MH[place], ids_M[place], sampled_from.part(place))
        for place in places
    ]
    return TokenLogprobs(*(torch.cat(parts) for parts in zip(*chunks, strict=True)))


def _again_in_backward(
    head: Head, hidden_MH: Tensor, ids_M: Tensor, sampled_from: SampledFrom
) -> tuple[Tensor, Tensor]:
    return cast(
        "tuple[Tensor, Tensor]",
        checkpoint(_logprobs, head, hidden_MH, ids_M, sampled_from, use_reentrant=False),
    )


def _logprobs(
    head: Head, hidden_MH: Tensor, ids_M: Tensor, sampled_from: SampledFrom
) -> tuple[Tensor, Tensor]:
    logits_MV = head.module(hidden_MH)
    logits_MV = logits_MV.to(torch.promote_types(logits_MV.dtype, torch.float32))
    shaped_MV = sampled_from.shaped(logits_MV)
    has_gradient = head.has_entropy_gradient and torch.is_grad_enabled()
    if sampled_from.kept_MK is None:
        logprobs_MV = shaped_MV.log_softmax(-1)
        chosen_M = logprobs_MV.gather(-1, ids_M[:, None])[:, 0]
    else:
        chosen_M = sampled_from.kept_logprobs(shaped_MV, sampled_from.kept_MK, ids_M)
        logprobs_MV = (shaped_MV if has_gradient else shaped_MV.detach()).log_softmax(-1)
    with torch.set_grad_enabled(has_gradient):
        entropy_M = -(logprobs_MV.exp() * logprobs_MV).sum(-1)
    return chosen_M, entropy_M
