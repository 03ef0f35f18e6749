# pyright: reportUnknownMemberType=false
# (torch leaves parts of its interface untyped)
"""Drawing one token for each row of a batch, each row with settings of its own.

Legend: `_B` rows, `_F` the rows that use top-k, top-p or min-p, `_V` the vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from warren_schemas.config import Sampling


@dataclass(slots=True)
class RowSettings:
    """Sampling settings by row. The flags say what any row needs, so that the rest costs nothing."""

    temperature_B: Tensor
    """1 for greedy rows."""
    is_greedy_B: Tensor
    top_k_B: Tensor
    """0 is off."""
    top_p_B: Tensor
    min_p_B: Tensor
    """0 is off."""
    any_greedy: bool
    any_filter: bool

    @staticmethod
    def of(settings: Sequence[Sampling], device: torch.device) -> "RowSettings":
        temperature_B = torch.tensor([s.temperature for s in settings], device=device)
        is_greedy_B = temperature_B == 0
        return RowSettings(
            temperature_B=temperature_B.masked_fill(is_greedy_B, 1.0),
            is_greedy_B=is_greedy_B,
            top_k_B=torch.tensor([s.top_k for s in settings], device=device),
            top_p_B=torch.tensor([s.top_p for s in settings], device=device),
            min_p_B=torch.tensor([s.min_p for s in settings], device=device),
            any_greedy=any(s.temperature == 0 for s in settings),
            any_filter=any(_is_filtered(s) for s in settings),
        )

    def select(self, kept: Tensor) -> "RowSettings":
        return RowSettings(
            self.temperature_B[kept],
            self.is_greedy_B[kept],
            self.top_k_B[kept],
            self.top_p_B[kept],
            self.min_p_B[kept],
            self.any_greedy,
            self.any_filter,
        )

    def joined(self, other: "RowSettings") -> "RowSettings":
        return RowSettings(
            torch.cat([self.temperature_B, other.temperature_B]),
            torch.cat([self.is_greedy_B, other.is_greedy_B]),
            torch.cat([self.top_k_B, other.top_k_B]),
            torch.cat([self.top_p_B, other.top_p_B]),
            torch.cat([self.min_p_B, other.min_p_B]),
            self.any_greedy or other.any_greedy,
            self.any_filter or other.any_filter,
        )


def _is_filtered(sampling: Sampling) -> bool:
    is_cut = sampling.top_k > 0 or sampling.top_p < 1.0 or sampling.min_p > 0
    return sampling.temperature > 0 and is_cut


def draw(
    logits_BV: Tensor, settings_B: RowSettings, generator: torch.Generator
) -> tuple[list[int], list[float]]:
    """One token id for each row and its logprob under the distribution it was drawn from.

    The logprob is NaN, and the id means nothing, where a row's logits are not finite.
    """
    logprobs_BV = (logits_BV.float() / settings_B.temperature_B[:, None]).log_softmax(-1)
    if bool(logprobs_BV.sum().isnan()):
        ids_B, chosen_B = _draw_around_broken(logprobs_BV, settings_B, generator)
    else:
        ids_B, chosen_B = _draw(logprobs_BV, settings_B, generator)
    return cast("list[int]", ids_B.tolist()), cast("list[float]", chosen_B.tolist())


def _draw(
    logprobs_BV: Tensor, settings_B: RowSettings, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    if settings_B.any_filter:
        _restrict(logprobs_BV, settings_B)
    ids_B = torch.multinomial(logprobs_BV.exp(), 1, generator=generator)[:, 0]
    if settings_B.any_greedy:
        ids_B = torch.where(settings_B.is_greedy_B, logprobs_BV.argmax(-1), ids_B)
    chosen_B = logprobs_BV.gather(1, ids_B[:, None])[:, 0]
    return ids_B, chosen_B.clamp(max=0.0)


def _draw_around_broken(
    logprobs_BV: Tensor, settings_B: RowSettings, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    is_broken_B = logprobs_BV.isnan().any(-1)
    ids_B, chosen_B = _draw(logprobs_BV.nan_to_num(nan=0.0), settings_B, generator)
    return ids_B, chosen_B.masked_fill(is_broken_B, torch.nan)


def _restrict(logprobs_BV: Tensor, settings_B: RowSettings) -> None:
    """Cut the rows that ask for it to their top-k, then top-p, then min-p, and renormalize them
    in place."""
    is_cut_B = (settings_B.top_k_B > 0) | (settings_B.top_p_B < 1.0) | (settings_B.min_p_B > 0)
    is_cut_B &= ~settings_B.is_greedy_B
    rows_F = is_cut_B.nonzero()[:, 0]
    sorted_FV, order_FV = logprobs_BV[rows_F].sort(-1, descending=True)
    top_k_F1 = settings_B.top_k_B[rows_F, None]
    ranks_V = torch.arange(sorted_FV.size(1), device=sorted_FV.device)
    sorted_FV = sorted_FV.masked_fill((top_k_F1 > 0) & (ranks_V >= top_k_F1), -torch.inf)
    probs_FV = sorted_FV.softmax(-1)
    reached_before_FV = probs_FV.cumsum(-1) - probs_FV
    top_p_F1 = settings_B.top_p_B[rows_F, None]
    is_out_FV = (top_p_F1 < 1.0) & (reached_before_FV >= top_p_F1) & (ranks_V > 0)
    is_out_FV |= probs_FV < settings_B.min_p_B[rows_F, None] * probs_FV[:, :1]
    kept_FV = sorted_FV.masked_fill(is_out_FV, -torch.inf).log_softmax(-1)
    logprobs_BV[rows_F] = torch.empty_like(kept_FV).scatter_(1, order_FV, kept_FV)
