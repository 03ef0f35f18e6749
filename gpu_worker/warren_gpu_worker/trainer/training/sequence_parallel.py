# pyright: reportUnknownMemberType=false
"""Sequence parallelism: each rank computes a part of every sequence, where one device can't hold a whole one.

Packed rows are cut into equal parts, one for each rank. Every layer but attention looks at one position at a time, and so
needs its own part alone. For attention ranks exchange what they have twice: before it each gets all positions of some heads,
after it all heads of its own positions (Ulysses: Jacobs et al. 2023, arXiv 2309.14509). Logprobs of all tokens are shared, so
every rank computes the whole loss, of which it differentiates what depends on its own positions.

Legend: P positions of all packed rows, Q those of one rank (the last rank's are filled up), N heads, D features of one,
M chosen tokens.

Invariants:
- Gradients add up over ranks to those of one rank, to the precision of the arithmetic.
- All ranks call the same collectives, also those whose part has nothing to train on.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, distributed, nn
from torch.distributed.nn.functional import (
    all_to_all_single,  # pyright: ignore[reportUnknownVariableType]
)
from transformers import PreTrainedConfig

from warren_gpu_worker.trainer.training.ranks import Ranks


@dataclass(frozen=True, slots=True)
class SequenceShards:
    """Of so many positions."""

    ranks: Ranks
    n_positions: int

    @property
    def n_own(self) -> int:
        """Positions of each rank."""
        return -(-self.n_positions // self.ranks.size)

    @property
    def first(self) -> int:
        """Of the own positions."""
        return self.ranks.rank * self.n_own

    def own(self, values_1P: Tensor) -> Tensor:
        """This rank's part [1, Q] of what every rank has."""
        n_missing = self.n_own * self.ranks.size - self.n_positions
        filled = nn.functional.pad(values_1P, (0, n_missing))
        return filled[:, self.first : self.first + self.n_own]

    def own_among(self, positions_M: Tensor) -> slice:
        """Which of these rising positions are this rank's."""
        borders = positions_M.new_tensor([self.first, self.first + self.n_own])
        begin, end = torch.searchsorted(positions_M, borders)
        return slice(int(begin), int(end))

    def everyones(self, own: Tensor, among: slice, n: int) -> Tensor:
        """Values of n tokens, where each rank has `own` `among` them; only these have a gradient."""
        values_M = own.new_zeros(n, requires_grad=False)
        values_M[among] = own.detach()
        distributed.all_reduce(values_M)
        return torch.cat([values_M[: among.start], own, values_M[among.stop :]])

    def some_heads(self, own_1NQD: Tensor) -> Tensor:
        """All positions [1, N / ranks, P, D] of some heads, in the place of all heads of own positions."""
        n_heads, n_own, n_features = own_1NQD.shape[1:]
        shares = own_1NQD.reshape(self.ranks.size, n_heads // self.ranks.size, n_own, n_features)
        parts = _exchanged(shares).transpose(0, 1)
        return parts.reshape(1, -1, n_own * self.ranks.size, n_features)[:, :, : self.n_positions]

    def own_positions(self, some_1PND: Tensor) -> Tensor:
        """The reverse, in the order of what attention gives: [1, Q, N, D]."""
        n_missing = self.n_own * self.ranks.size - self.n_positions
        filled = nn.functional.pad(some_1PND[0], (0, 0, 0, 0, 0, n_missing))
        shares = filled.reshape(self.ranks.size, self.n_own, *filled.shape[1:])
        return _exchanged(shares).transpose(0, 1).flatten(1, 2)[None]


def why_not_split(config: PreTrainedConfig, n_ranks: int) -> str | None:
    """Why attention can't be shared out."""
    for name, n_heads in _heads_of(config).items():
        if n_heads % n_ranks:
            return f"its {n_heads} {name} can't be shared out evenly over {n_ranks} devices"
    return None


def _heads_of(config: PreTrainedConfig) -> dict[str, int]:
    n_heads = int(config.num_attention_heads)
    n_keys = cast("int | None", getattr(config, "num_key_value_heads", None))
    return {"attention heads": n_heads, "key-value heads": n_keys or n_heads}


def _exchanged(shares: Tensor) -> Tensor:
    """The n-th goes to the n-th rank; what comes stands in the order of ranks."""
    shares = shares.contiguous()
    return cast("Tensor", all_to_all_single(torch.empty_like(shares), shares))
