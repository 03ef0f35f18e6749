"""Sampling masks: the tokens that top-k, top-p and min-p left to sample from.

A truncated distribution is the model's, cut to a set of tokens and renormalized. The trainer's
logprob of a sampled token is comparable with the sampler's only over the same set, which the
trainer's own weights do not tell; so the set is kept with the token ("keep sampling mask",
DeepSeek-V3.2, 2025, section 3.1).

Legend: `_N` tokens of one sequence or of several laid end to end, `_S` token ids of all their sets.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from warren_schemas.base import Frozen
from warren_schemas.fields.arrays import MaskSizes, TokenIds

MAX_MASK_IDS = 1 << 20
"""Most token ids in the masks of one episode: half of the largest message."""


class SamplingMask(Frozen):
    """For each token the set that it was sampled from."""

    sizes_N: MaskSizes
    """Tokens in each set; 0 where nothing was cut, or nothing sampled."""
    ids_S: TokenIds
    """The sets, one after another."""

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        n_ids = int(self.sizes_N.sum())
        if n_ids != self.ids_S.size:
            raise ValueError(f"the sizes add up to {n_ids}, and there are {self.ids_S.size} ids")
        return self

    @property
    def starts_N(self) -> NDArray[np.int64]:
        """Where each set begins."""
        return np.cumsum(self.sizes_N, dtype=np.int64) - self.sizes_N

    def covers(self, ids_N: NDArray[np.int32]) -> bool:
        """Whether each set has its own token once."""
        owners_S = np.repeat(np.arange(self.sizes_N.size), self.sizes_N)
        own_S = owners_S[self.ids_S == ids_N[owners_S]]
        n_found_N = np.bincount(own_S, minlength=self.sizes_N.size)
        return bool(np.array_equal(n_found_N, self.sizes_N > 0))

    def extended(self, n_unmasked: int, newer: "SamplingMask") -> "SamplingMask":
        """This, some tokens without a set, and `newer`. Nothing is validated again."""
        nothing = np.zeros(n_unmasked, np.int32)
        return SamplingMask.model_construct(
            sizes_N=np.concatenate([self.sizes_N, nothing, newer.sizes_N]),
            ids_S=np.concatenate([self.ids_S, newer.ids_S]),
        )

    def first(self, n_tokens: int) -> "SamplingMask":
        """Of so many of the tokens. Nothing is validated again."""
        sizes_N = self.sizes_N[:n_tokens]
        return SamplingMask.model_construct(sizes_N=sizes_N, ids_S=self.ids_S[: sizes_N.sum()])

    @classmethod
    def none(cls, n_tokens: int) -> Self:
        """Of tokens without a set."""
        return cls.model_construct(
            sizes_N=np.zeros(n_tokens, np.int32), ids_S=np.zeros(0, np.int32)
        )

    @classmethod
    def of(cls, sets: Sequence[NDArray[np.int32]]) -> Self:
        """Of tokens that have these sets. Nothing is validated."""
        sizes_N = np.array([ids.size for ids in sets], np.int32)
        return cls.model_construct(
            sizes_N=sizes_N, ids_S=np.concatenate([np.zeros(0, np.int32), *sets])
        )

    @classmethod
    def joined(cls, masks: "Sequence[SamplingMask]") -> Self:
        """Those of several sequences, laid end to end."""
        return cls(
            sizes_N=np.concatenate([mask.sizes_N for mask in masks]),
            ids_S=np.concatenate([mask.ids_S for mask in masks]),
        )


def fault(mask: SamplingMask | None, ids_N: NDArray[np.int32]) -> str | None:
    """Why the mask is not one of these tokens."""
    if mask is None:
        return None
    if mask.sizes_N.size != ids_N.size:
        return f"arrays differ in length: {ids_N.size} ids, {mask.sizes_N.size} sampling masks"
    if not mask.covers(ids_N):
        return "a token is not in the sampling mask that it was sampled from, or is there twice"
    return None
