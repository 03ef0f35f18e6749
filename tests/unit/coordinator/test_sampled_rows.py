"""Recorded episodes as rows that are fine-tuned on: the very tokens that were sampled, whoever dies."""

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
import pytest
from tests.unit.coordinator.test_replays_of_files import recorded, views
from tests.unit.coordinator.test_rows import tuned
from tests.unit.coordinator.test_stalled import pass_time, told
from tests.unit.coordinator.world import World, config

from warren_schemas.config import CrossEntropyLoss
from warren_schemas.control import WorkerRole
from warren_schemas.datasets.order import Order
from warren_schemas.episode import Completed, EpisodePurpose
from warren_schemas.events import Phase, RunState, StepCompleted
from warren_schemas.exports.files import json_lines
from warren_schemas.http import TrajectoryView
from warren_schemas.training import ForwardBackward

Sequence = tuple[tuple[int, ...], tuple[bool, ...]]
"""The ids, and which of them are learned."""


@dataclass
class Exported:
    """A split of what was exported."""

    views: list[TrajectoryView]

    def __len__(self) -> int:
        return len(self.views)

    def row(self, number: int) -> dict[str, Any]:
        return orjson.loads(json_lines([self.views[number]]))


@cache
def all_of_a_run() -> tuple[TrajectoryView, ...]:
    """Of which some failed."""
    return tuple(views(recorded("jsonl", failure_rate=0.2)))


def solved() -> list[TrajectoryView]:
    return [
        view
        for view in all_of_a_run()
        if isinstance(view.trajectory.outcome, Completed)
        and view.trajectory.spec.purpose is EpisodePurpose.TRAIN
        and view.trajectory.outcome.reward == 1.0
    ]


def world_on(rows: Exported, seed: int = 0, trainers: str = "a", **wanted: Any) -> World:
    return World(tuned(**wanted), random.Random(seed), rows=rows, trainers_tokenizer=trainers)


def sampled_in(view: TrajectoryView) -> Sequence:
    (tokens,) = view.trajectory.transcript.sequences
    return tuple(tokens.ids_T.tolist()), tuple((tokens.mask_T == 1).tolist())


def learned(world: World) -> list[Sequence]:
    """In the order in which they were trained on."""
    found: list[Sequence] = []
    for number in sorted(world.applied):
        if isinstance(body := world.applied[number].body, ForwardBackward):
            assert isinstance(body.loss, CrossEntropyLoss)
            batch, start = body.batch, 0
            for length in batch.lengths_B:
                part = slice(start, start := start + int(length))
                is_learned = batch.mask_N[part] == 1
                found.append((tuple(batch.ids_N[part].tolist()), tuple(is_learned.tolist())))
    return found


@pytest.mark.parametrize("chaos", [0.0, 0.03], ids=["calm", "takeovers"])
@pytest.mark.parametrize("seed", range(3))
def test_the_tokens_that_were_sampled_are_learned_in_the_order_of_the_seed(
    seed: int, chaos: float
) -> None:
    rows = solved()
    world = world_on(Exported(rows), seed)
    state = world.drive(chaos)
    assert state.run_state is RunState.COMPLETED, world.error
    order = Order("train", world.config.seed)
    drawn = [rows[order.position(i, len(rows))] for i in range(5 * 4)]
    assert learned(world) == [sampled_in(view) for view in drawn]
    assert not world.episodes, "a sampler was asked for tokens"


def test_no_sampler_is_waited_for_before_something_else_needs_one() -> None:
    rows = Exported(solved())
    alone = World(tuned(), random.Random(0), rows=rows, away=WorkerRole.SAMPLER)
    pass_time(alone, 10.0)
    assert told(alone) == []
    assert alone.drive(0.0).run_state is RunState.COMPLETED, alone.error
    assert told(alone) == []

    sft = {"dataset": "me/best@abcdef", "steps": 5, "episodes_per_step": 4}
    first = World(config(sft=sft), random.Random(0), rows=rows, away=WorkerRole.SAMPLER)
    while first.state.stage.phase is not Phase.TRAINING:
        first.move()
    assert told(first) == []
    pass_time(first, 10.0)
    (reason,) = told(first)
    assert reason.startswith("no sampler offers tiny")


def test_what_failed_or_was_superseded_is_left_out() -> None:
    every = list(all_of_a_run())
    superseded = [view.model_copy(update={"fate": "superseded"}) for view in solved()[:5]]
    world = world_on(Exported([*every, *superseded]))
    state = world.drive(0.0)
    assert state.run_state is RunState.COMPLETED, world.error
    failures = {e.outcome.reason for e in world.stream if not isinstance(e.outcome, Completed)}
    assert any("was superseded" in reason for reason in failures)
    assert any("the episode failed: it broke" in reason for reason in failures)
    assert len(learned(world)) == 5 * 4


def test_what_is_longer_than_max_tokens_is_cut_at_its_end_and_told() -> None:
    rows = solved()
    world = world_on(Exported(rows), max_tokens=2)
    world.drive(0.0)
    whole = {ids[0]: (ids, mask) for ids, mask in map(sampled_in, rows)}
    for ids, mask in learned(world):
        assert (ids, mask) == tuple(part[:2] for part in whole[ids[0]])
    steps = [e.body for e in world.events if isinstance(e.body, StepCompleted)]
    assert {step.metrics["seq/truncated_frac"] for step in steps} == {1.0}


def test_tokens_of_another_vocabulary_end_the_run_with_the_reason() -> None:
    world = world_on(Exported(solved()), trainers="b")
    state = world.drive(0.0)
    assert state.run_state is RunState.FAILED
    assert "were made by another tokenizer" in world.error
    assert "collect the words with --kind messages" in world.error


def test_a_row_that_can_not_be_read_any_more_fails_with_the_reason() -> None:
    class Broken(Exported):
        def row(self, number: int) -> dict[str, Any]:
            return super().row(number) | {"ids_T": "none"}

    world = world_on(Broken(solved()))
    world.decide()
    for _ in range(200):
        world.move()
    (reason,) = {e.outcome.reason for e in world.stream if not isinstance(e.outcome, Completed)}
    assert reason.startswith("it is no recorded episode any more: ids_T")
