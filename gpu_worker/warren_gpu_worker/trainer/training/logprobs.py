# pyright: reportUnknownMemberType=false
"""Logprobs of chosen tokens, without keeping the logits of a large vocabulary.

Legend: M tokens, U hidden states of several tokens each, H hidden size, V vocabulary. Where [M, V] logits would be large they are made in
chunks and made again in the backward pass, so that only one chunk exists at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    checkpoint,  # pyright: ignore[reportUnknownVariableType]
)

from warren_gpu_worker.trainer.training.sampled_from import SampledFrom

_Parts = tuple[Tensor, Tensor, Tensor, Tensor]
"""The fields of `TokenLogprobs`."""
MAX_LOGITS = 32 * 1024 * 1024
"""Most float32 logits that exist at once: 128 MiB."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Of each token, by two distributions: the one that it was sampled from, and the policy's own, of all
    tokens, after penalty and temperature and before the sampler cut it. Without truncation they are one."""

    logprobs_M: Tensor
    """Of what it was sampled from, which is what ratios are of; float32 at least; carries the gradient."""
    untruncated_M: Tensor
    """Of the policy's own; has a gradient if asked for. A token that was left alone has a logprob of 0 above,
    whatever the weights, and only this one tells of it how far the policy is from another."""
    entropy_M: Tensor
    """H = -Σ p ln p (Shannon 1948) of the policy's own; without gradient."""
    sampled_entropy_M: Tensor
    """H of what it was sampled from, which an entropy bonus raises (Williams and Peng 1991); has a gradient if
    asked for. A bonus over all tokens would raise those that were cut, which cost no reward until they are
    sampled: tail noise (Huang et al. 2026, arXiv 2602.03635)."""

    def each(self, change: Callable[[Tensor], Tensor]) -> "TokenLogprobs":
        """All of them changed alike."""
        parts = (self.logprobs_M, self.untruncated_M, self.entropy_M, self.sampled_entropy_M)
        return TokenLogprobs(*map(change, parts))


@dataclass(frozen=True, slots=True)
class Head:
    """What makes a distribution of hidden states."""

    module: nn.Module
    vocabulary: int
    max_logits: int = MAX_LOGITS
    has_entropy_gradient: bool = False
    has_untruncated_gradient: bool = False


def token_logprobs(
    head: Head,
    hidden_MH: Tensor,
    ids_M: Tensor,
    sampled_from: SampledFrom,
    owners_M: Tensor | None = None,
) -> TokenLogprobs:
    """Of the given ids, under the distributions that they were sampled from; float32 at least.

    `owners_M`: there are fewer hidden states, and these of them are the tokens'; all were sampled alike.
    """
    if owners_M is not None:
        return _of_several(head, hidden_MH, owners_M, ids_M, sampled_from)
    n_rows = max(1, head.max_logits // head.vocabulary)
    if ids_M.numel() <= n_rows:
        return TokenLogprobs(*_logprobs(head, hidden_MH, ids_M, sampled_from))
    places = [slice(at, at + n_rows) for at in range(0, ids_M.numel(), n_rows)]
    chunks = [
        _again_in_backward(head, hidden_MH[place], ids_M[place], sampled_from.part(place))
        for place in places
    ]
    return TokenLogprobs(*(torch.cat(parts) for parts in zip(*chunks, strict=True)))


def _of_several(
    head: Head, hidden_UH: Tensor, owners_M: Tensor, ids_M: Tensor, sampled_from: SampledFrom
) -> TokenLogprobs:
    """Logits of each hidden state are made once."""
    n_rows = max(1, head.max_logits // head.vocabulary)
    parts, chunks = list[Tensor](), list[_Parts]()
    for at in range(0, max(len(hidden_UH), 1), n_rows):
        part = ((owners_M >= at) & (owners_M < at + n_rows)).nonzero()[:, 0]
        given = (head, hidden_UH[at : at + n_rows], owners_M[part] - at, ids_M[part], sampled_from)
        chunks.append(cast("_Parts", checkpoint(_shared, *given, use_reentrant=False)))
        parts.append(part)
    places_M = torch.cat(parts).argsort()
    return TokenLogprobs(*(torch.cat(found)[places_M] for found in zip(*chunks, strict=True)))


def _shared(
    head: Head, hidden_UH: Tensor, owners_M: Tensor, ids_M: Tensor, sampled_from: SampledFrom
) -> _Parts:
    logits_UV = head.module(hidden_UH)
    logits_UV = logits_UV.to(torch.promote_types(logits_UV.dtype, torch.float32))
    logprobs_UV = sampled_from.shaped(logits_UV).log_softmax(-1)
    chosen_M, entropy_M = logprobs_UV[owners_M, ids_M], _entropy(logprobs_UV, head)[owners_M]
    return chosen_M, chosen_M, entropy_M.detach(), entropy_M


def _again_in_backward(
    head: Head, hidden_MH: Tensor, ids_M: Tensor, sampled_from: SampledFrom
) -> _Parts:
    return cast(
        "_Parts",
        checkpoint(_logprobs, head, hidden_MH, ids_M, sampled_from, use_reentrant=False),
    )


def _logprobs(head: Head, hidden_MH: Tensor, ids_M: Tensor, sampled_from: SampledFrom) -> _Parts:
    logits_MV = head.module(hidden_MH)
    logits_MV = logits_MV.to(torch.promote_types(logits_MV.dtype, torch.float32))
    shaped_MV = sampled_from.shaped(logits_MV)
    if sampled_from.kept_MK is None:
        logprobs_MV = shaped_MV.log_softmax(-1)
        chosen_M, entropy_M = _at(logprobs_MV, ids_M), _entropy(logprobs_MV, head)
        return chosen_M, chosen_M, entropy_M.detach(), entropy_M
    logprobs_MK = sampled_from.kept_logprobs(shaped_MV, sampled_from.kept_MK)
    places_M = (sampled_from.kept_MK == ids_M[:, None]).int().argmax(-1)
    with _gradient(head.has_untruncated_gradient):
        logprobs_MV = shaped_MV.log_softmax(-1)
    return (
        _at(logprobs_MK, places_M),
        _at(logprobs_MV, ids_M),
        _entropy(logprobs_MV.detach(), head),
        _entropy(logprobs_MK.masked_fill(logprobs_MK.isneginf(), 0.0), head),  # 0 adds 0
    )


def _at(logprobs_MV: Tensor, ids_M: Tensor) -> Tensor:
    return logprobs_MV.gather(-1, ids_M[:, None])[:, 0]


def _entropy(logprobs_MV: Tensor, head: Head) -> Tensor:
    with _gradient(head.has_entropy_gradient):
        return -(logprobs_MV.exp() * logprobs_MV).sum(-1)


def _gradient(is_wanted: bool) -> torch.set_grad_enabled:
    return torch.set_grad_enabled(is_wanted and torch.is_grad_enabled())
