"""A run that learns nothing says so: while it runs, and at its end."""

import random

import pytest
from sqlmodel import Session
from tests.unit.coordinator.world import World, config

from warren_gateway.store.tables import Run
from warren_schemas.config import AlarmName, TrainConfig
from warren_schemas.events import RunOutcome, RunState, StateChanged, WarningRaised
from warren_schemas.training import OptimStep


def limited(steps: int = 20, **limits: object) -> TrainConfig:
    return config(limits={"steps": steps, "warn_after_zero_variance_steps": 3, **limits})


def warnings(world: World) -> list[str]:
    bodies = [event.body for event in world.events if isinstance(event.body, WarningRaised)]
    return [body.message for body in bodies if body.alarm is AlarmName.ZERO_VARIANCE]


def test_it_is_told_with_what_is_known_after_as_many_steps_as_the_config_says() -> None:
    world = World(limited(13), random.Random(1), rewards=(0.0,))
    world.drive(0.0)
    told = warnings(world)
    assert [text.split()[0] for text in told] == ["3", "6", "12"]
    assert "all their groups had zero variance" in told[0]
    assert "all 8 episodes got the reward 0.000" in told[0]
    assert "in 2 of 2 groups all answers were the same, token by token" in told[0]
    assert "sampling.temperature (1)" in told[0] and "algorithm.group_size (4)" in told[0]
    assert "warren trajectories run_1" in told[0]


def test_answers_that_are_cut_are_told() -> None:
    settings = limited().model_dump(mode="json") | {"sampling": {"max_tokens": 2}}
    world = World(TrainConfig.model_validate(settings), random.Random(1), rewards=(0.5,))
    world.drive(0.0)
    assert "8 of 8 episodes had an answer as long as max_tokens (2) allows" in warnings(world)[0]


def test_one_group_with_a_signal_begins_the_count_anew() -> None:
    world = World(limited(40), random.Random(1), rewards=(0.0, 1.0))
    world.drive(0.0)
    assert world.state.learning.steps.n_updates > 30
    assert warnings(world) == []


@pytest.mark.parametrize("chaos", [0.0, 0.02])
def test_a_run_without_an_update_does_not_end_as_a_success(chaos: float) -> None:
    world = World(limited(6), random.Random(1), rewards=(0.0,))
    world.drive(chaos)
    last = world.events[-1].body
    assert isinstance(last, StateChanged) and last.reason is not None
    assert (last.state, last.outcome) == (RunState.COMPLETED, RunOutcome.NOTHING_LEARNED)
    assert last.reason.startswith("all groups had zero variance in 6 steps")
    with Session(world.engine) as session:
        row = session.get_one(Run, world.run)
        assert row.error is None and row.result is not None
        assert (row.result["outcome"], row.result["remark"]) == ("nothing_learned", last.reason)


def test_an_entropy_bonus_alone_makes_updates_and_is_told_as_nothing_learned() -> None:
    settings = limited(6).model_dump(mode="json")
    settings["algorithm"]["entropy_coefficient"] = 0.1
    world = World(TrainConfig.model_validate(settings), random.Random(1), rewards=(0.0,))
    world.drive(0.0)
    assert world.state.learning.steps.n_updates == 6
    assert len(warnings(world)) == 2
    assert world.state.rollouts.dropped_groups == {}
    last = world.events[-1].body
    assert isinstance(last, StateChanged)
    assert last.outcome is RunOutcome.NOTHING_LEARNED


def test_limits_can_end_it_early() -> None:
    world = World(limited(20, stop_after_zero_variance_steps=5), random.Random(1), rewards=(0.0,))
    world.drive(0.0)
    assert world.step_shown == (5, 20)
    last = world.events[-1].body
    assert isinstance(last, StateChanged) and last.reason is not None
    assert last.outcome is RunOutcome.NOTHING_LEARNED
    assert "and limits.stop_after_zero_variance_steps (5) ended the run" in last.reason


def test_a_run_that_stops_learning_ends_early_as_trained_and_says_why() -> None:
    world = World(
        limited(40, stop_after_zero_variance_steps=2), random.Random(2), rewards=(0.0, 1.0)
    )
    world.decide()
    while world.state.learning.steps.n_updates < 3:
        world.move()
    world.rewards = (1.0,)
    world.drive(0.0)
    last = world.events[-1].body
    assert isinstance(last, StateChanged) and last.reason is not None
    assert last.outcome is RunOutcome.TRAINED
    assert "of 40 was the last: 2 steps in a row learned nothing" in last.reason
    assert any(isinstance(op.body, OptimStep) for op in world.applied.values())
