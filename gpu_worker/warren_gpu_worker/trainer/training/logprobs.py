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

MAX_LOGITS = 32 * 1024 * 1024
"""Most float32 logits that exist at once: 128 MiB."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    logprobs_M: Tensor
    """float32 at least; carries the gradient."""
    entropy_M: Tensor
    """Of the distribution that the token was drawn from; has a gradient if asked for."""


@dataclass(frozen=True, slots=True)
class Head:
    """What makes a distribution of hidden states."""

    module: nn.Module
    vocabulary: int
    max_logits: int = MAX_LOGITS
    temperature: float = 1.0
    has_entropy_gradient: bool = False


def token_logprobs(head: Head, hidden_MH: Tensor, ids_M: Tensor) -> TokenLogprobs:
    """log softmax(head(hidden) / temperature) at the given ids, in float32 at least."""
    n_rows = max(1, head.max_logits // head.vocabulary)
    if ids_M.numel() <= n_rows:
        return TokenLogprobs(*_logprobs(head, hidden_MH, ids_M))
    chunks = [
        _again_in_backward(head, hidden_MH[at : at + n_rows], ids_M[at : at + n_rows])
        for at in range(0, ids_M.numel(), n_rows)
    ]
    return TokenLogprobs(*(torch.cat(parts) for parts in zip(*chunks, strict=True)))


def _again_in_backward(head: Head, hidden_MH: Tensor, ids_M: Tensor) -> tuple[Tensor, Tensor]:
    return cast(
        "tuple[Tensor, Tensor]", checkpoint(_logprobs, head, hidden_MH, ids_M, use_reentrant=False)
    )


def _logprobs(head: Head, hidden_MH: Tensor, ids_M: Tensor) -> tuple[Tensor, Tensor]:
    logits_MV = head.module(hidden_MH)
    logits_MV = logits_MV.to(torch.promote_types(logits_MV.dtype, torch.float32))
    if head.temperature != 1.0:
        logits_MV = logits_MV / head.temperature
    logprobs_MV = logits_MV.log_softmax(-1)
    with torch.set_grad_enabled(head.has_entropy_gradient and torch.is_grad_enabled()):
        entropy_M = -(logprobs_MV.exp() * logprobs_MV).sum(-1)
    return logprobs_MV.gather(-1, ids_M[:, None])[:, 0], entropy_M
