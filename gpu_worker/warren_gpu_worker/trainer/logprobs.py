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
    """float32; carries the gradient."""
    entropy_M: Tensor
    """Of the distribution that the token was drawn from; detached."""


def token_logprobs(
    head: nn.Module, vocabulary: int, hidden_MH: Tensor, ids_M: Tensor, temperature: float
) -> TokenLogprobs:
    """log softmax(head(hidden) / temperature) at the given ids, in float32."""
    n_rows = max(1, MAX_LOGITS // vocabulary)
    if ids_M.numel() <= n_rows:
        return TokenLogprobs(*_logprobs(head, hidden_MH, ids_M, temperature))
    chunks = [
        _again_in_backward(head, hidden_MH[at : at + n_rows], ids_M[at : at + n_rows], temperature)
        for at in range(0, ids_M.numel(), n_rows)
    ]
    return TokenLogprobs(*(torch.cat(parts) for parts in zip(*chunks, strict=True)))


def _again_in_backward(
    head: nn.Module, hidden_MH: Tensor, ids_M: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    return cast(
        "tuple[Tensor, Tensor]",
        checkpoint(_logprobs, head, hidden_MH, ids_M, temperature, use_reentrant=False),
    )


def _logprobs(
    head: nn.Module, hidden_MH: Tensor, ids_M: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    logits_MV = head(hidden_MH).float()
    if temperature != 1.0:
        logits_MV = logits_MV / temperature
    logprobs_MV = logits_MV.log_softmax(-1)
    with torch.no_grad():
        entropy_M = -(logprobs_MV.exp() * logprobs_MV).sum(-1)
    return logprobs_MV.gather(-1, ids_M[:, None])[:, 0], entropy_M
