# pyright: reportUnknownMemberType=false
"""forward_backward ops of several LoRA models in one batch.

A small op leaves most of the machine idle, so ops of different models go through the base together
(see `stacked`), each with its own loss. Large ops gain nothing and go alone.

Legend as in `stacked`.

Invariants:
- An op does to its model what it would do alone, to the precision of the arithmetic: it has its own
  loss, its own gradient, its own answer. What is wrong with one op concerns no other.
- Nothing of any model has changed when `apply_batch` raises, so the ops can still go alone.
- A batch has at most `max_tokens` positions, and at least two thirds of them are the ops' own.
"""

import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from transformers import PreTrainedModel

from warren_gpu_worker.trainer.errors import OpError
from warren_gpu_worker.trainer.training.gradient import (
    Answer,
    add_rows,
    check_op,
    micro_batches_of,
    reference_logprobs,
)
from warren_gpu_worker.trainer.training.gradient_checkpointing import checkpoint_activations
from warren_gpu_worker.trainer.training.micro_batches import MicroBatch
from warren_gpu_worker.trainer.training.stacked_adapters import Shape, StackedDecoder, shape_of
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_schemas.ids import ModelId
from warren_schemas.training import ForwardBackward, OpDone

_LARGEST_PADDING = 1.5
"""Positions of a shared batch for each one that the ops have alone."""


@dataclass(frozen=True, slots=True)
class Member:
    """An op that may share a batch."""

    model_id: ModelId
    number: int
    model: TrainableModel
    op: ForwardBackward
    rows: MicroBatch

    @property
    def size(self) -> tuple[int, int]:
        """(rows, positions)"""
        n_rows, n_positions = self.rows.input_ids_BT.shape
        return n_rows, n_positions


class LoraBatching:
    """Forms batches, and keeps the decoders that they go through."""

    def __init__(self, *, max_tokens: int, max_models: int, checkpoint_activations: bool) -> None:
        self._max_tokens = max_tokens
        self._max_models = max_models
        self._checkpoint_activations = checkpoint_activations
        self._decoders: weakref.WeakKeyDictionary[PreTrainedModel, dict[Shape, StackedDecoder]] = (
            weakref.WeakKeyDictionary()
        )

    def member(
        self, model_id: ModelId, number: int, model: TrainableModel, op: ForwardBackward
    ) -> Member | None:
        """None for an op that fills a batch by itself, or is in error."""
        try:
            check_op(model, op)
        except OpError:
            return None
        rows = micro_batches_of(model, op, self._max_tokens, packs=False)
        first = next(rows)
        is_small = next(rows, None) is None
        return Member(model_id, number, model, op, first) if is_small else None

    def batches(self, members: Iterable[Member]) -> Iterator[list[Member]]:
        """Two or more members of like size on the same base; who finds no other is left out."""
        kinds: dict[tuple[int, Shape], list[Member]] = defaultdict(list)
        for m in members:
            if m.model.base is not None and (shape := shape_of(m.model)) is not None:
                kinds[id(m.model.base), shape].append(m)
        for kind in kinds.values():
            batched_with: list[Member] = []
            for newcomer in sorted(kind, key=lambda m: m.size[::-1], reverse=True):
                if batched_with and not self._fits([*batched_with, newcomer]):
                    yield batched_with
                    batched_with = []
                batched_with.append(newcomer)
            yield batched_with

    def _fits(self, batched_with: list[Member]) -> bool:
        n_rows, n_positions = _extent(batched_with)
        n_batch = len(batched_with) * n_rows * n_positions
        n_own = sum(rows * positions for rows, positions in (m.size for m in batched_with))
        is_dense = n_batch <= _LARGEST_PADDING * n_own
        return is_dense and n_batch <= self._max_tokens and len(batched_with) <= self._max_models

    def decoder(self, batched_with: list[Member]) -> StackedDecoder:
        """Of the batch's base and shape."""
        model = batched_with[0].model
        base, shape = cast("PreTrainedModel", model.base), cast("Shape", shape_of(model))
        decoders = self._decoders.setdefault(base, {})
        if shape not in decoders:
            decoders[shape] = StackedDecoder(base, shape)
            if self._checkpoint_activations:
                checkpoint_activations(decoders[shape].module)
        return decoders[shape]


def _extent(batched_with: list[Member]) -> tuple[int, int]:
    """Rows of each model, and positions of each row."""
    rows, positions = zip(*(m.size for m in batched_with), strict=True)
    return max(rows), max(positions)


def apply_batch(decoder: StackedDecoder, batched_with: list[Member]) -> list[OpDone | OpError]:
    """Apply the ops in one batch; what each answers, in their order."""
    references = [reference_logprobs(m.model, m.op, m.rows) for m in batched_with]
    answers = [Answer.to(m.op) for m in batched_with]
    with decoder.adapted_by([m.model for m in batched_with]):
        hidden_BTH = decoder.hidden_BTH(_input_ids(batched_with))
        losses: list[Tensor] = []
        for place, m in enumerate(batched_with):
            loss = add_rows(
                m.model,
                m.op,
                m.rows,
                _own_hidden(hidden_BTH, batched_with, place),
                references[place],
                answers[place],
            )
            losses.append(loss)
        gradients = _gradients(batched_with, losses)
    sums = [_sums(m, gradient) for m, gradient in zip(batched_with, gradients, strict=True)]
    # From here on nothing can fail half-way.
    return [
        _settle(m, answer, added)
        for m, answer, added in zip(batched_with, answers, sums, strict=True)
    ]


def _input_ids(batched_with: list[Member]) -> Tensor:
    """[B, T]; a model with fewer rows gets empty ones."""
    n_rows, n_positions = _extent(batched_with)
    ids_SRT = batched_with[0].rows.input_ids_BT.new_zeros(len(batched_with), n_rows, n_positions)
    for place, m in enumerate(batched_with):
        rows, positions = m.size
        ids_SRT[place, :rows, :positions] = m.rows.input_ids_BT
    return ids_SRT.flatten(0, 1)


def _own_hidden(hidden_BTH: Tensor, batched_with: list[Member], place: int) -> Tensor:
    n_rows, _ = _extent(batched_with)
    rows, positions = batched_with[place].size
    first = place * n_rows
    return hidden_BTH[first : first + rows, :positions]


def _gradients(batched_with: list[Member], losses: list[Tensor]) -> list[list[Tensor | None]]:
    """By model, in the order of its parameters. Each depends on its own op's loss alone."""
    parameters = [list(m.model.parameters.values()) for m in batched_with]
    everything = [parameter for own in parameters for parameter in own]
    found = iter(torch.autograd.grad(torch.stack(losses).sum(), everything, allow_unused=True))
    return [[_laid_out(next(found)) for _ in own] for own in parameters]


def _laid_out(gradient: Tensor | None) -> Tensor | None:
    """As its parameter is, for the fused optimizer goes by memory, not by strides; and in memory of
    its own: what comes out of a stack is a view of all models' gradients, at rank 1 a contiguous
    one, and offloading gives the whole memory back."""
    return None if gradient is None else gradient.clone(memory_format=torch.contiguous_format)


def _sums(m: Member, gradient: list[Tensor | None]) -> list[Tensor | None]:
    """With what the model has of this window already."""
    before = [parameter.grad for parameter in m.model.parameters.values()]
    return [
        old if new is None else new if old is None else old + new
        for old, new in zip(before, gradient, strict=True)
    ]


def _settle(m: Member, answer: Answer, gradient: list[Tensor | None]) -> OpDone | OpError:
    """Take over the gradient, unless the result is not finite."""
    try:
        done = answer.finish(m.model)
    except OpError as error:
        return error
    for parameter, new in zip(m.model.parameters.values(), gradient, strict=True):
        parameter.grad = new
    m.model.n_backward += 1
    return done
