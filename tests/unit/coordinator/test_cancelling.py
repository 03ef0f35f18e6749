"""A run may be cancelled at any moment: it ends there and then, and asks for nothing more."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.coordinator.world import World, config

from warren_schemas.events import Phase, RunState, StateChanged

EVERY_STAGE: dict[str, object] = {
    "checkpoint": {"every_steps": 4},
    "sft": {"steps": 2, "episodes_per_step": 8},
    "evaluation": {"episodes": 8, "every_steps": 2},
}


def a_world(seed: int) -> World:
    return World(config(**EVERY_STAGE), random.Random(seed))


def move_until_in(world: World, phase: Phase) -> None:
    world.decide()
    while world.state.stage.phase is not phase:
        world.move()


def cancel(world: World) -> None:
    """As its owner asks for it; then all that is still under way comes in."""
    world.state.observed.is_cancel_requested = True
    n_started, n_applied = len(world.episodes), len(world.applied)
    world.decide()
    assert len(world.episodes) == n_started
    while world.episodes:
        world.finish_episode()
    for _ in range(20):
        world.train()
        world.read_mail()
    assert len(world.applied) - n_applied <= 20
    world.load()
    world.decide()


def check_cancelled(world: World) -> None:
    assert world.state.run_state is RunState.CANCELLED
    assert not world.state.rollouts.groups
    finals = [e.body for e in world.events if isinstance(e.body, StateChanged)]
    assert [body.reason for body in finals if body.state.is_final] == ["cancelled by its owner"]
    assert not world.episodes


def test_a_run_is_cancelled_before_anything_was_decided() -> None:
    world = a_world(1)

    cancel(world)

    check_cancelled(world)
    assert [item.kind for item in world.endings] == ["run_ended"]


@pytest.mark.parametrize("phase", Phase)
def test_a_run_is_cancelled_in_each_phase(phase: Phase) -> None:
    world = a_world(1)
    move_until_in(world, phase)

    cancel(world)

    check_cancelled(world)
    assert [item.kind for item in world.endings] == ["close_model", "run_ended"]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n_moves=st.integers(0, 400))
def test_a_run_is_cancelled_after_any_number_of_moves(seed: int, n_moves: int) -> None:
    world = a_world(seed)
    world.decide()
    for _ in range(n_moves):
        if world.rng.random() < 0.05:
            world.rng.choice((world.load, world.kill_trainer, world.lose_episode))()
        world.move()
    was_over = world.state.is_over

    cancel(world)

    if was_over:
        assert world.state.run_state is RunState.COMPLETED
    else:
        check_cancelled(world)
