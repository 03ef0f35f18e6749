"""Rows that SFT holds out: each evaluation that is due happens once, over the same rows, whoever dies."""

import random
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.unit.coordinator.test_rows import rows_learned, tuned
from tests.unit.coordinator.world import World, config, loss_at, weights_after

from warren_gateway.coordinator.learning.resuming import checkpoint_position
from warren_schemas.config import SftConfig
from warren_schemas.control import WorkerRole
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunState, StepCompleted, WarningRaised
from warren_schemas.training import Forward, ForwardBackward, OptimStep

HELD_OUT = {"evaluation_split": "dev", "evaluate_every": 2, "evaluation_rows": 4}


def told(world: World) -> dict[int, tuple[float, float]]:
    """Loss and tokens by step, as the run has reported them; each once."""
    found: dict[int, tuple[float, float]] = {}
    for event in world.events:
        body = event.body
        if isinstance(body, StepCompleted) and "evaluation_loss" in body.metrics:
            assert body.step not in found
            metrics = body.metrics
            found[body.step] = metrics["evaluation_loss"], metrics["evaluation_tokens"]
    return found


def measured(world: World) -> dict[int, tuple[float, float]]:
    """The same by the ops that the undisturbed trainer applies."""
    weights, step, found = "", 0, dict[int, tuple[float, float]]()
    for number in sorted(world.applied):
        body = world.applied[number].body
        if isinstance(body, ForwardBackward | OptimStep):
            weights = weights_after(weights, body)
            step += isinstance(body, OptimStep)
        elif isinstance(body, Forward):
            loss = loss_at(weights, body)
            assert step not in found
            found[step] = loss["loss:sum"] / loss["tokens:sum"], loss["tokens:sum"]
    return found


def rows_measured(world: World) -> list[list[int]]:
    """By their numbers, one list for each evaluation."""
    by_mark = {int(e.transcript.tokens.ids_T[0]): e.spec.task for e in world.stream}
    found: list[list[int]] = []
    for number in sorted(world.applied):
        if isinstance(body := world.applied[number].body, Forward):
            tasks = [by_mark[int(mark)] for mark in body.batch.ids_N[::3]]
            assert {(task.split, task.num_samples) for task in tasks} == {("dev", 4)}
            found.append([task.index for task in tasks])
    return found


@pytest.mark.parametrize("chaos", [0.0, 0.03], ids=["calm", "takeovers"])
@pytest.mark.parametrize("seed", range(5))
def test_each_evaluation_that_is_due_happens_once_whoever_dies(seed: int, chaos: float) -> None:
    world = World(tuned(**HELD_OUT), random.Random(seed), away=WorkerRole.ENVIRONMENT)
    state = world.drive(chaos)
    assert state.run_state is RunState.COMPLETED, world.error
    assert told(world) == measured(world)
    assert {step: n_tokens for step, (_, n_tokens) in told(world).items()} == {2: 8, 4: 8, 5: 8}
    assert rows_measured(world) == [[0, 1, 2, 3]] * 3
    assert rows_learned(world) == list(range(5 * 4))


def test_rows_that_fail_are_left_out_of_their_evaluation() -> None:
    wanted = tuned(**HELD_OUT).model_dump(mode="json")
    wanted["limits"] |= {"episode_attempts": 1}
    world = World(config(**wanted), random.Random(4), failure_rate=0.4)
    state = world.drive(0.0)
    assert state.run_state is RunState.COMPLETED, world.error
    n_rows = [len(rows) for rows in rows_measured(world)]
    assert min(n_rows) < 4
    assert [n_tokens for _, n_tokens in told(world).values()] == [2.0 * n for n in n_rows]
    assert len(rows_learned(world)) == 5 * 4


def test_a_split_of_which_nothing_is_learned_has_no_loss_and_says_so() -> None:
    world = _Mute(tuned(**HELD_OUT), random.Random(0))
    state = world.drive(0.0)
    assert state.run_state is RunState.COMPLETED, world.error
    assert told(world) == {}
    warnings = [e.body.message for e in world.events if isinstance(e.body, WarningRaised)]
    assert len(warnings) == 3
    assert "no row of dev has tokens that are learned" in warnings[0]


class _Mute(World):
    def finish_episode(self) -> None:
        n_before = len(self.stream)
        super().finish_episode()
        self.stream[n_before:] = [_mute(ended) for ended in self.stream[n_before:]]


def _mute(ended: EpisodeEnded) -> EpisodeEnded:
    if ended.spec.task.split != "dev":
        return ended
    tokens = ended.transcript.tokens
    quiet = tokens.model_copy(update={"mask_T": np.zeros_like(tokens.mask_T)})
    transcript = ended.transcript.model_copy(update={"tokens": quiet})
    return ended.model_copy(update={"transcript": transcript})


def test_a_run_that_goes_on_from_a_checkpoint_begins_its_evaluation_with_the_first_row() -> None:
    world = World(tuned(**HELD_OUT), random.Random(0))
    world.decide()
    for _ in range(100):
        if world.episodes:
            break
        world.move()
    splits = [item.spec.task.split for item in world.episodes]
    assert splits.count("dev") == 4
    mark: Any = checkpoint_position(world.state)
    assert {environment for _, environment, _ in mark["tasks_again"]} == {0}
    assert list(mark["task_cursors"]) == ["demonstrate/0"]


@pytest.mark.parametrize(
    ("keys", "due"),
    [
        ({"evaluation_split": "dev"}, [5]),
        ({"evaluation_split": "dev", "evaluate_every": 2}, [2, 4, 5]),
        ({"evaluation_split": "dev", "evaluate_every": 5}, [5]),
        ({}, []),
    ],
)
def test_what_is_due(keys: dict[str, Any], due: list[int]) -> None:
    sft = SftConfig(dataset="x", steps=5, **keys)
    assert [step for step in range(1, 7) if sft.next_evaluation(after=step - 1) == step] == due


@pytest.mark.parametrize(
    ("sft", "reason"),
    [
        ({"evaluation_split": "dev"}, "evaluation_split is of a data set"),
        ({"dataset": "x", "evaluate_every": 2}, "evaluate_every says how a split is evaluated"),
        ({"dataset": "x", "evaluation_rows": 2}, "evaluation_rows says how a split is evaluated"),
        (
            {"dataset": "x", "steps": 3, "evaluation_split": "dev", "evaluate_every": 4},
            "evaluate_every is 4, and there are 3 steps; leave it out",
        ),
    ],
)
def test_keys_without_effect_are_refused(sft: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError) as found:
        config(sft=sft)
    assert reason in str(found.value)
