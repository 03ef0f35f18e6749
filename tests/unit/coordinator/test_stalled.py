"""A run of which nothing moves says why, whatever the cause; driven by a clock."""

import random
from collections.abc import Callable

import pytest
from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator import decisions
from warren_schemas.config import TrainConfig
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.events import WaitingEnded, WaitingStarted


def patient(minutes: float = 5.0) -> TrainConfig:
    return config(limits={"steps": 6, "episode_s": 36_000, "stalled_after_s": 60 * minutes})


def told(world: World) -> list[str]:
    return [e.body.reason for e in world.events if isinstance(e.body, WaitingStarted)]


def pass_time(world: World, seconds: float) -> None:
    """As the coordinator does it: a decision whenever one is due, and no polling."""
    end_s = world.now_s + seconds
    world.decide()
    for _ in range(100):
        due_s = max(decisions.next_deadline_s(world.state), world.now_s + 0.1)
        if due_s > end_s:
            break
        world.now_s = due_s
        world.decide()
    world.now_s = end_s
    world.decide()


def until(world: World, reached: Callable[[], bool]) -> World:
    world.decide()
    while not reached():
        world.move()
    return world


def test_episodes_that_never_end_are_told_again_and_again_less_often() -> None:
    world = World(patient(), random.Random(1))
    until(world, lambda: bool(world.episodes))
    world.episodes.clear()
    world.state.observed.queue_depths["queue/generate"] = 16.0
    pass_time(world, 290)
    assert told(world) == []
    pass_time(world, 30)
    [first] = told(world)
    assert first.startswith("nothing has moved for 5")
    assert "16 episodes are in flight and none ends" in first
    assert "16 messages in generate" in first and "limits.episode_s" in first
    pass_time(world, 300)
    assert len(told(world)) == 2
    pass_time(world, 500)
    assert len(told(world)) == 2, "then after twice as long"
    pass_time(world, 200)
    assert len(told(world)) == 3


def test_while_the_broker_gives_no_answer_nobody_is_said_to_be_missing() -> None:
    """Nor right after it is back: workers need a moment to be heard again."""
    world = World(patient(), random.Random(1))
    until(world, lambda: bool(world.episodes))
    hear = world.alive

    def deaf(role: WorkerRole | None) -> list[Heartbeat]:
        return []

    world.alive = deaf
    world.state.observed.is_broker_away = True
    pass_time(world, 30)
    world.state.observed.is_broker_away = False
    pass_time(world, 2)
    world.alive = hear
    pass_time(world, 30)
    assert told(world) == [
        "the broker gives no answer, so no worker can be heard; the run goes on when it does"
    ]
    assert [e for e in world.events if isinstance(e.body, WaitingEnded)]
    world.alive = deaf
    pass_time(world, 30)
    assert told(world)[1].startswith("no trainer offers") or "no sampler offers" in told(world)[1]


def test_a_trainer_whose_disk_is_full_is_named_until_it_is_not() -> None:
    world = World(patient(), random.Random(1))
    until(world, lambda: bool(world.episodes))
    hear = world.alive

    def full(role: WorkerRole | None) -> list[Heartbeat]:
        beats = hear(role)
        update = {"without_disk_space": (world.model,), "host": "there"}
        return [b.model_copy(update=update) if b.models else b for b in beats]

    world.alive = full
    pass_time(world, 10)
    [reason] = told(world)
    assert reason.startswith(
        "no space is left where trainer trainer-0 (on there) keeps checkpoints"
    )
    world.alive = hear
    pass_time(world, 10)
    assert [e for e in world.events if isinstance(e.body, WaitingEnded)]


def test_other_runs_of_a_trainer_whose_disk_is_full_are_told_too() -> None:
    world = World(patient(), random.Random(1))
    until(world, lambda: world.state.learning.ops.last > world.state.learning.ops.done)
    hear = world.alive

    def full(role: WorkerRole | None) -> list[Heartbeat]:
        update = {"without_disk_space": ("model_of_another_run",), "host": "there"}
        return [b.model_copy(update=update) if b.models else b for b in hear(role)]

    world.alive = full
    pass_time(world, 10)
    [reason] = told(world)
    assert reason.startswith("trainer trainer-0 (on there) has no space left for the checkpoint of")
    assert "model_of_another_run" not in reason


def test_a_trainer_that_answers_no_op_is_named() -> None:
    world = World(patient(1), random.Random(1))
    until(world, lambda: world.state.learning.ops.last > 0)
    world.episodes.clear()
    pass_time(world, 70)
    [reason] = told(world)
    assert "trainer trainer-0 leaves" in reason and "from op 1 on; see its log" in reason


def test_a_trainer_that_opens_no_model_is_named() -> None:
    world = World(patient(1), random.Random(1))
    world.decide()
    world.answers.clear()
    pass_time(world, 70)
    [reason] = told(world)
    assert "trainer trainer-0 was given the model and has not opened it" in reason


def test_a_run_whose_cause_nobody_foresaw_tells_its_counters() -> None:
    world = World(patient(1), random.Random(1))
    until(world, lambda: world.state.stage.n_steps > 0)
    world.state.observed.shares = {"guess": 0}
    world.state.rollouts.n_admitted = 999
    world.state.rollouts.groups.clear()
    pass_time(world, 70)
    [reason] = told(world)
    assert "no episode is in flight and no op is unanswered; step 0 of 6, 999 groups" in reason


@pytest.mark.parametrize("seed", range(3))
def test_it_is_over_once_something_moves(seed: int) -> None:
    world = World(patient(1), random.Random(seed))
    until(world, lambda: bool(world.episodes))
    pass_time(world, 70)
    assert len(told(world)) == 1 and world.state.waiting.reason is not None
    world.drive(0.0)
    assert [e for e in world.events if isinstance(e.body, WaitingEnded)]
    assert len(told(world)) == 1
    assert world.state.waiting.reason is None
