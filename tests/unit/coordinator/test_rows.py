"""Rows of data sets: as what is learned, and as tasks of environments."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.unit.coordinator.world import N_ROWS, World, config

from warren_gateway.stop_request import StopRequest
from warren_schemas.config import TrainConfig
from warren_schemas.control import WorkerRole
from warren_schemas.datasets.order import Order
from warren_schemas.episode import EpisodeEnded, EpisodePurpose, Generate
from warren_schemas.events import RunState, WarningRaised
from warren_schemas.training import ForwardBackward

RECORDED = {"kind": "recorded", "run": "run_1"}


def tuned(**sft: Any) -> TrainConfig:
    wanted = {"dataset": "me/chats@abcdef", "steps": 5, "episodes_per_step": 4, **sft}
    limits = {"steps": 0, "episode_s": 50, "episode_attempts": 9, "failed_groups": 999}
    return config(algorithm={}, environments=[], sft=wanted, limits=limits)


def rows_learned(world: World) -> list[int]:
    """By their numbers, in the order in which they were trained on."""
    by_mark = {
        int(ended.transcript.tokens.ids_T[0]): ended.spec.task.index for ended in world.stream
    }
    ops = (world.applied[number].body for number in sorted(world.applied))
    marks: list[int] = []
    for body in ops:
        if isinstance(body, ForwardBackward):
            ids_N, start = body.batch.ids_N, 0
            for length in body.batch.lengths_B:
                marks.append(int(ids_N[start]))
                start += int(length)
    return [by_mark[mark] for mark in marks]


@pytest.mark.parametrize("chaos", [0.0, 0.03], ids=["calm", "takeovers"])
@pytest.mark.parametrize("seed", range(5))
def test_rows_are_learned_in_their_order_whoever_dies(seed: int, chaos: float) -> None:
    world = World(tuned(), random.Random(seed), away=WorkerRole.ENVIRONMENT)
    state = world.drive(chaos)
    assert state.run_state is RunState.COMPLETED, world.error
    assert rows_learned(world) == list(range(5 * 4))
    assert state.learning.policy.version_issued == 5


def test_what_becomes_tokens_is_the_row_that_the_seed_says() -> None:
    world = World(tuned(), random.Random(0))
    world.decide()
    order = Order("train", world.config.seed)
    for item in world.episodes:
        assert isinstance(item, Generate)
        number = order.position(item.spec.task.index, N_ROWS)
        assert item.transcript.messages[0].content == f"{number}?"
        assert (item.learned, item.spec.purpose) == ((1,), EpisodePurpose.DEMONSTRATE)
    drawn = [order.position(i, N_ROWS) for i in range(2 * N_ROWS)]
    assert sorted(drawn[:N_ROWS]) == sorted(drawn[N_ROWS:]) == list(range(N_ROWS))
    assert drawn[:N_ROWS] != drawn[N_ROWS:]


def test_rows_that_fail_are_left_out_and_the_next_ones_take_their_place() -> None:
    world = World(tuned(), random.Random(2), failure_rate=0.3)
    state = world.drive(0.0)
    assert state.run_state is RunState.COMPLETED, world.error
    learned = rows_learned(world)
    assert len(learned) == 5 * 4
    assert learned == sorted(learned)


@dataclass
class UntaughtWorld(World):
    """Some rows become tokens of which none is learned."""

    untaught: frozenset[int] = frozenset()

    def finish_episode(self) -> None:
        n_before = len(self.stream)
        super().finish_episode()
        self.stream[n_before:] = [self._spoilt(item) for item in self.stream[n_before:]]

    def _spoilt(self, item: EpisodeEnded) -> EpisodeEnded:
        if item.spec.task.index not in self.untaught:
            return item
        nothing = np.array([1, 0, 0], np.uint8)  # nothing predicts the first token
        tokens = item.transcript.tokens.model_copy(update={"mask_T": nothing})
        transcript = item.transcript.model_copy(update={"tokens": tokens})
        return item.model_copy(update={"transcript": transcript})


def told(world: World) -> list[str]:
    bodies = [event.body for event in world.events]
    return [body.message for body in bodies if isinstance(body, WarningRaised)]


@pytest.mark.slow
def test_rows_without_a_token_to_learn_are_left_out() -> None:
    """One of the second batch; and all of the first and of the last, whose steps change nothing."""
    untaught = frozenset({0, 1, 2, 3, 5, 16, 17, 18, 19})
    world = UntaughtWorld(tuned(), random.Random(3), untaught=untaught)
    state = world.drive(0.0)
    assert state.run_state is RunState.COMPLETED, world.error
    assert rows_learned(world) == [row for row in range(16) if row not in untaught]
    assert (state.learning.policy.version_issued, state.learning.policy.version) == (3, 3)
    assert [text.split(" of the")[0] for text in told(world)] == ["1", "2"]


def test_a_run_that_has_nothing_to_learn_fails_and_says_why() -> None:
    world = UntaughtWorld(tuned(), random.Random(3), untaught=frozenset(range(20)))
    assert world.drive(0.0).run_state is RunState.FAILED
    assert "no step of fine-tuning had a token to learn; look at" in world.error


def test_no_row_is_sent_out_once_a_run_is_still() -> None:
    world = World(tuned(steps=50), random.Random(3))
    world.decide()
    world.state.observed.stop_request = StopRequest.PAUSE
    n_sent = len(world.episodes)
    while world.state.run_state is not RunState.PAUSED:
        world.move()
        assert len(world.episodes) <= n_sent
        n_sent = len(world.episodes)


def test_an_environment_plays_the_rows_of_its_data_set() -> None:
    environment = {
        "name": "guess",
        "dataset": "me/tasks@abcdef",
        "splits": {"train": {"shuffle": False}},
    }
    world = World(config(environments=[environment]), random.Random(0))
    for _ in range(200):
        world.move()
        if world.episodes:
            break
    rows = {item.spec.task.index: item.spec.task.row for item in world.episodes}
    assert rows
    for index, row in rows.items():
        assert row is not None
        assert row.number == index % N_ROWS
        assert row.values["messages"][0]["content"] == f"{row.number}?"  # pyright: ignore[reportIndexIssue, reportOptionalSubscript, reportArgumentType, reportCallIssue]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sft": {"epochs": 2.0}}, "epochs is of a data set"),
        ({"sft": {"dataset": "x", "epochs": 2.0, "steps": 3}}, "leave steps out"),
        ({"sft": {"dataset": "x@zz"}}, "sft.dataset"),
        ({"sft": {"dataset": "x", "roles": []}}, "sft.roles"),
        ({"environments": []}, "nothing says where episodes happen"),
        ({"environments": [], "sft": {"dataset": "x"}}, "nothing says where episodes happen"),
        (
            {"sft": {"dataset": "x"}, "source": RECORDED, "algorithm": {}, "limits": {"steps": 6}},
            "a replay fine-tunes on the recorded",
        ),
    ],
)
def test_keys_without_effect_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError) as found:
        config(**changes)
    assert reason in str(found.value)
