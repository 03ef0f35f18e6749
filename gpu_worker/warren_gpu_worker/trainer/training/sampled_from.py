# pyright: reportUnknownMemberType=false
"""The distributions that tokens were sampled from, made again of the trainer's logits.

In the sampler's order: the repetition penalty, the temperature, the tokens that were left.

Legend: B rows, T positions, M tokens, V vocabulary, K tokens of the largest set.

Invariant: with the weights that sampled, these are the sampler's distributions, whatever its settings.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from warren_gpu_worker.trainer.training.micro_batches import MicroBatch

_NO_TOKEN = -1
"""Fills up the sets that are smaller than the largest one."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Which tokens stand before each of some tokens in its sequence."""

    first_BV: Tensor
    """The position where each token id stands first, or T."""
    rows_M: Tensor
    positions_M: Tensor

    @staticmethod
    def before(rows: MicroBatch, places_M: Tensor, vocabulary: int) -> "Seen":
        ids_BT = rows.input_ids_BT
        n_rows, n_positions = ids_BT.shape
        positions_BT = torch.arange(n_positions, device=ids_BT.device).expand(n_rows, -1)
        nowhere_BV = positions_BT.new_full((n_rows, vocabulary), n_positions)
        first_BV = nowhere_BV.scatter_reduce(1, ids_BT, positions_BT, "amin")
        places_M = rows.input_places(places_M)
        return Seen(first_BV, places_M // n_positions, places_M % n_positions)

    def part(self, place: slice) -> "Seen":
        return Seen(self.first_BV, self.rows_M[place], self.positions_M[place])

    def penalized(self, logits_MV: Tensor, penalty: float) -> Tensor:
        """What was seen is divided by the penalty where it is positive, else multiplied by it."""
        is_seen_MV = self.first_BV[self.rows_M] <= self.positions_M[:, None]
        lower_MV = torch.where(logits_MV > 0, logits_MV / penalty, logits_MV * penalty)
        return torch.where(is_seen_MV, lower_MV, logits_MV)


@dataclass(frozen=True, slots=True)
class SampledFrom:
    """How each of M tokens was sampled."""

    temperature: float = 1.0
    repetition_penalty: float = 1.0
    seen: Seen | None = None
    """Where there is a penalty."""
    kept_MK: Tensor | None = None
    """The tokens that were left; None: all of them."""

    @property
    def is_of_all(self) -> bool:
        """Whether every token was sampled from all of the vocabulary, whatever came before."""
        return self.seen is None and self.kept_MK is None

    def part(self, place: slice) -> "SampledFrom":
        return SampledFrom(
            self.temperature,
            self.repetition_penalty,
            None if self.seen is None else self.seen.part(place),
            None if self.kept_MK is None else self.kept_MK[place],
        )

    def shaped(self, logits_MV: Tensor) -> Tensor:
        """What the sampler cut: the logits after the penalty and the temperature."""
        if self.seen is not None:
            logits_MV = self.seen.penalized(logits_MV, self.repetition_penalty)
        return logits_MV if self.temperature == 1.0 else logits_MV / self.temperature

    def kept_logprobs(self, shaped_MV: Tensor, kept_MK: Tensor) -> Tensor:
        """Of the tokens that were left, among these; -inf where a set is filled up."""
        shaped_MK = shaped_MV.gather(1, kept_MK.clamp(min=0))
        return shaped_MK.masked_fill(kept_MK == _NO_TOKEN, -torch.inf).log_softmax(-1)
