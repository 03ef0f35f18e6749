# pyright: reportUnknownMemberType=false
# (torch leaves parts of its interface untyped)
"""Drawing one token for each row of a batch, each row with settings of its own.

Legend: `_B` rows, `_F` the rows that use top-k, top-p or min-p, `_V` the vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warren_gpu_worker.sampler.engines.truncation import Kept, Limits, truncated
from warren_schemas.config import Sampling
from warren_schemas.fields.limits import MAX_KEPT


@dataclass(slots=True)
class RowSettings:
    """Sampling settings by row. The flags say what any row needs, so that the rest costs nothing."""

    temperature_B: Tensor
    """1 for greedy rows."""
    is_greedy_B: Tensor
    limits_B: Limits
    any_greedy: bool
    any_filter: bool
    any_mask: bool
    any_seed: bool

    @staticmethod
    def of(
        settings: Sequence[Sampling],
        device: torch.device,
        keeps_mask: Sequence[bool],
        *,
        any_seed: bool = False,
    ) -> "RowSettings":
        """`keeps_mask`: of which rows the tokens that are left are told."""
        temperature_B = torch.tensor([s.temperature for s in settings], device=device)
        is_greedy_B = temperature_B == 0
        most = [MAX_KEPT * keeps for keeps in keeps_mask]
        return RowSettings(
            temperature_B=temperature_B.masked_fill(is_greedy_B, 1.0),
            is_greedy_B=is_greedy_B,
            limits_B=Limits.of(settings, most, device),
            any_greedy=any(s.temperature == 0 for s in settings),
            any_filter=any(s.is_truncated for s in settings),
            any_mask=any(keeps_mask),
            any_seed=any_seed,
        )

    def select(self, kept: Tensor) -> "RowSettings":
        return RowSettings(
            self.temperature_B[kept],
            self.is_greedy_B[kept],
            self.limits_B.select(kept),
            self.any_greedy,
            self.any_filter,
            self.any_mask,
            self.any_seed,
        )

    def joined(self, other: "RowSettings") -> "RowSettings":
        return RowSettings(
            torch.cat([self.temperature_B, other.temperature_B]),
            torch.cat([self.is_greedy_B, other.is_greedy_B]),
            self.limits_B.joined(other.limits_B),
            self.any_greedy or other.any_greedy,
            self.any_filter or other.any_filter,
            self.any_mask or other.any_mask,
            self.any_seed or other.any_seed,
        )


@dataclass(frozen=True, slots=True)
class Draw:
    """One token for each row."""

    ids: list[int]
    logprobs: list[float]
    """Under the distribution it was drawn from. NaN, and the id means nothing, where a row's logits
    are not finite."""
    sets: dict[int, NDArray[np.int32]] = field(default_factory=dict[int, NDArray[np.int32]])
    """What it was drawn from, by row, of rows that are cut; empty where no row keeps its mask."""


def draw(
    logits_BV: Tensor,
    settings_B: RowSettings,
    generator: torch.Generator,
    fixed: Mapping[int, float] | None = None,
) -> Draw:
    """`fixed`: of rows with a seed, where between 0 and 1 their token is drawn."""
    logprobs_BV = (logits_BV.float() / settings_B.temperature_B[:, None]).log_softmax(-1)
    is_broken_B = None
    if bool(logprobs_BV.sum().isnan()):
        is_broken_B = logprobs_BV.isnan().any(-1)
        logprobs_BV = logprobs_BV.nan_to_num(nan=0.0)
    sets = _restrict(logprobs_BV, settings_B) if settings_B.any_filter else {}
    ids_B, chosen_B = _draw(logprobs_BV, settings_B, generator, fixed or {})
    if is_broken_B is not None:
        chosen_B = chosen_B.masked_fill(is_broken_B, torch.nan)
    return Draw(cast("list[int]", ids_B.tolist()), cast("list[float]", chosen_B.tolist()), sets)


def _draw(
    logprobs_BV: Tensor,
    settings_B: RowSettings,
    generator: torch.Generator,
    fixed: Mapping[int, float],
) -> tuple[Tensor, Tensor]:
    ids_B = torch.multinomial(logprobs_BV.exp(), 1, generator=generator)[:, 0]
    for row, place in fixed.items():
        ids_B[row] = _token_at(logprobs_BV[row], place)
    if settings_B.any_greedy:
        ids_B = torch.where(settings_B.is_greedy_B, logprobs_BV.argmax(-1), ids_B)
    chosen_B = logprobs_BV.gather(1, ids_B[:, None])[:, 0]
    return ids_B, chosen_B.clamp(max=0.0)


def _token_at(logprobs_V: Tensor, place: float) -> Tensor:
    """The token in whose part of the distribution `place` lies; never one without probability."""
    cumulated_V = logprobs_V.double().exp().cumsum(-1)
    found = torch.searchsorted(cumulated_V, place * cumulated_V[-1:], right=True)
    most = (logprobs_V > -torch.inf).nonzero()[-1, 0]
    return found[0].clamp(max=most)


def _restrict(logprobs_BV: Tensor, settings_B: RowSettings) -> dict[int, NDArray[np.int32]]:
    """Cut the rows that ask for it, in place; what is left of them, if anybody keeps that."""
    is_cut_B = settings_B.limits_B.cuts_F & ~settings_B.is_greedy_B
    rows_F = is_cut_B.nonzero()[:, 0]
    if not rows_F.numel():
        return {}
    logprobs_FV = logprobs_BV[rows_F]
    kept: Kept = truncated(logprobs_FV, settings_B.limits_B.select(rows_F))
    kept.put(logprobs_FV)
    logprobs_BV[rows_F] = logprobs_FV
    if not settings_B.any_mask:
        return {}
    return dict(zip(cast("list[int]", rows_F.tolist()), kept.sets(), strict=True))
