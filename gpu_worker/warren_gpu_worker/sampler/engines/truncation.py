# pyright: reportUnknownMemberType=false
# (torch leaves parts of its interface untyped)
"""Top-k, top-p and min-p of rows with settings of their own, and which tokens they leave.

A row is cut to its `top_k` most probable tokens and renormalized; of these, to the smallest set that
reaches `top_p`; of these, to what has `min_p` of the most probable one; of these, to its `most`. So
what is left is always the beginning of the tokens in order of their probability.

Legend: `_F` rows, `_V` the vocabulary, `_K` the most probable tokens, the first of them first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warren_schemas.config import Sampling


@dataclass(frozen=True, slots=True)
class Limits:
    """By row; 0 is off, and so is 1 of `top_p_F`."""

    top_k_F: Tensor
    top_p_F: Tensor
    min_p_F: Tensor
    most_F: Tensor

    @staticmethod
    def of(settings: Sequence[Sampling], most: Sequence[int], device: torch.device) -> "Limits":
        return Limits(
            torch.tensor([s.top_k for s in settings], device=device),
            torch.tensor([s.top_p for s in settings], device=device),
            torch.tensor([s.min_p for s in settings], device=device),
            torch.tensor(most, device=device),
        )

    def select(self, rows: Tensor) -> "Limits":
        return Limits(self.top_k_F[rows], self.top_p_F[rows], self.min_p_F[rows], self.most_F[rows])

    def joined(self, other: "Limits") -> "Limits":
        return Limits(
            torch.cat([self.top_k_F, other.top_k_F]),
            torch.cat([self.top_p_F, other.top_p_F]),
            torch.cat([self.min_p_F, other.min_p_F]),
            torch.cat([self.most_F, other.most_F]),
        )

    @property
    def cuts_F(self) -> Tensor:
        return (self.top_k_F > 0) | (self.top_p_F < 1.0) | (self.min_p_F > 0)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of each row."""

    ids_FK: Tensor
    sizes_F: Tensor
    logprobs_FK: Tensor
    """Renormalized; -inf for what was cut."""

    def sets(self) -> list[NDArray[np.int32]]:
        """The token ids by row, the most probable first."""
        ids_FK = self.ids_FK[:, : int(self.sizes_F.max())].int().cpu().numpy()
        sizes = cast("list[int]", self.sizes_F.tolist())
        return [ids_K[:size].copy() for ids_K, size in zip(ids_FK, sizes, strict=True)]

    def put(self, logprobs_FV: Tensor) -> None:
        """Write it over the rows that it was made from."""
        logprobs_FV.fill_(-torch.inf).scatter_(1, self.ids_FK, self.logprobs_FK)


def truncated(logprobs_FV: Tensor, limits: Limits) -> Kept:
    """Cut normalized rows, each by its own limits."""
    top_k_F1, most_F1 = limits.top_k_F[:, None], limits.most_F[:, None]
    sorted_FK, ids_FK = logprobs_FV.topk(_n_candidates(limits, logprobs_FV.size(1)))
    ranks_K = torch.arange(sorted_FK.size(1), device=sorted_FK.device)
    in_top_k_FK = (top_k_F1 == 0) | (ranks_K < top_k_F1)
    sorted_FK = sorted_FK.masked_fill(~in_top_k_FK, -torch.inf)
    total_F1 = torch.where(top_k_F1 > 0, sorted_FK.logsumexp(-1, keepdim=True), 0.0)
    probs_FK = (sorted_FK - total_F1).exp()
    reached_before_FK = probs_FK.cumsum(-1) - probs_FK
    top_p_F1 = limits.top_p_F[:, None]
    is_out_FK = (top_p_F1 < 1.0) & (reached_before_FK >= top_p_F1) & (ranks_K > 0)
    is_out_FK |= probs_FK < limits.min_p_F[:, None] * probs_FK[:, :1]
    is_out_FK |= (most_F1 > 0) & (ranks_K >= most_F1)
    kept_FK = sorted_FK.masked_fill(is_out_FK, -torch.inf).log_softmax(-1)
    return Kept(ids_FK, (kept_FK > -torch.inf).sum(-1), kept_FK)


def _n_candidates(limits: Limits, n_vocabulary: int) -> int:
    """How many of the most probable tokens can be left of any row."""
    bounds_FL = torch.stack([limits.top_k_F, limits.most_F], dim=1)
    bounds_FL = bounds_FL.masked_fill(bounds_FL == 0, n_vocabulary)
    return min(n_vocabulary, int(bounds_FL.amin(1).amax()))
