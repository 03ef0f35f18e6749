"""The owner sets other limits at any moment, under faults: they are in force with the next decision that follows
from them, and no step is taken, nor training ended, by older ones."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlmodel import Session
from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator import records
from warren_gateway.coordinator.run_leases import LimitsChanged
from warren_gateway.store.tables import Run
from warren_schemas.events import Phase, RunState, StepCompleted


def store_limits(world: World, **limits: Any) -> None:
    """As a gateway does; the coordinator has not heard of it yet."""
    with Session(world.engine) as session, session.begin():
        run = session.get_one(Run, world.run)
        run.config = {**run.config, "limits": {**run.config["limits"], **limits}}
        run.n_steps = run.config["limits"]["steps"]
        run.limits_number += 1


def tell(world: World) -> None:
    """It hears of it, as the coordinator does."""
    state = world.state
    with Session(world.engine) as session:
        requests = records.requests_of(session, state.run, state.limits_number)
    if requests.limits is not None:
        state.take_limits(requests.limits, requests.limits_number)


def move(world: World) -> None:
    """What was decided by older limits is void: the coordinator begins again from the store."""
    try:
        world.move()
    except LimitsChanged:
        begin_again(world)


def begin_again(world: World) -> None:
    """As `RunCoordinator` does: the broker brings again what was not settled, the store what was not answered."""
    world.load()
    world.state.now_s = world.now_s
    with Session(world.engine) as session, session.begin():
        records.send_unanswered(session, world.state)


def n_taken(world: World) -> int:
    with Session(world.engine) as session:
        progress = session.get_one(Run, world.run).progress or {}
    return progress.get("learning", {}).get("steps", {}).get("n_trained", 0)


def drive(world: World) -> None:
    for _ in range(20_000):
        if world.state.is_over:
            return
        move(world)
    raise AssertionError("the run never ends")


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("steps", [3, 9])
def test_a_run_takes_as_many_steps_as_were_set_last(steps: int, is_told: bool) -> None:
    world = World(config(), random.Random(4))
    world.decide()
    while n_taken(world) < 2:
        world.move()
    store_limits(world, steps=steps)
    if is_told:
        tell(world)
    drive(world)
    assert world.state.run_state is RunState.COMPLETED
    assert world.state.learning.steps.n_trained == steps
    told = [e.body for e in world.events if isinstance(e.body, StepCompleted)]
    assert (told[-1].step, told[-1].n_steps) == (steps, steps)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n_moves=st.integers(0, 500), more=st.integers(0, 6))
def test_limits_that_were_accepted_hold_whenever_they_came(
    seed: int, n_moves: int, more: int
) -> None:
    """They are accepted while training goes on, for no fewer steps than are taken in the store."""
    world = World(config(evaluation={"episodes": 8, "after": True}), random.Random(seed))
    world.decide()
    for _ in range(n_moves):
        if world.rng.random() < 0.02:
            world.rng.choice((world.load, world.kill_trainer))()
        world.move()
    with Session(world.engine) as session:
        row = session.get_one(Run, world.run)
    if row.state in (RunState.FINISHING, RunState.COMPLETED):
        return
    steps = max(1, n_taken(world) + more)
    store_limits(world, steps=steps)
    while not world.state.is_over:
        if world.rng.random() < 0.05:
            world.rng.choice((world.load, world.kill_trainer, lambda: tell(world)))()
        move(world)

    assert world.state.run_state is RunState.COMPLETED
    assert world.state.learning.steps.n_trained == steps
    assert max(world.trained_episodes.values(), default=1) == 1


def test_training_does_not_end_by_limits_that_are_no_longer_in_force() -> None:
    """The coordinator has decided that it is over, and has not committed it, when the owner wants more."""
    world = World(config(), random.Random(5))
    world.decide()
    while not (
        world.state.learning.steps.n_published == 5 and world.state.stage.phase is Phase.TRAINING
    ):
        world.move()
    store_limits(world, steps=12)
    with pytest.raises(LimitsChanged):
        while not world.state.is_over:
            world.move()
    begin_again(world)
    drive(world)
    assert world.state.learning.steps.n_trained == 12


def test_fewer_episodes_in_flight_hold_from_the_next_one_on() -> None:
    algorithm = {"group_size": 4, "groups_per_step": 8, "max_staleness": 1}
    world = World(config(algorithm=algorithm, limits={"steps": 4}), random.Random(3))
    while not world.episodes:
        world.decide()
        world.train()
        world.read_mail()
    assert len(world.episodes) > 16
    store_limits(world, in_flight=4)
    tell(world)
    while world.state.learning.steps.n_published < 3 and not world.state.is_over:
        n_missing = sum(group.n_missing for group in world.state.rollouts.groups.values())
        n_before = world.state.rollouts.n_admitted
        world.move()
        if n_missing >= 4:
            assert world.state.rollouts.n_admitted <= n_before


def test_whoever_takes_the_run_over_goes_on_with_the_limits_in_force() -> None:
    world = World(config(), random.Random(1))
    world.decide()
    store_limits(world, steps=9, stop_at_reward=0.25)
    world.load()
    assert world.state.stage.phase is Phase.OPENING
    assert world.state.config.limits.stop_at_reward == 0.25
    assert [s.n_steps for s in world.state.stages if s.phase is Phase.TRAINING] == [9]
    assert world.state.limits_number == 1
