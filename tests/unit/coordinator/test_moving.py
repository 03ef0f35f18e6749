"""A model leaves a trainer that is drained: saved at that moment, and from there on elsewhere, under faults."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.coordinator.world import MOST_MOVES, World, config

from warren_gateway.stop_request import StopRequest
from warren_schemas.events import RunState

EVERY_STAGE: dict[str, object] = {
    "checkpoint": {"every_steps": 100},
    "sft": {"steps": 2, "episodes_per_step": 8},
    "evaluation": {"episodes": 8, "every_steps": 2},
}


def a_world(seed: int) -> World:
    return World(config(**EVERY_STAGE), random.Random(seed))


def drain(world: World) -> None:
    assert world.trainer is not None
    world.drained.add(world.trainer.worker)


def move_until_left(world: World, chaos: float = 0.0) -> None:
    for _ in range(MOST_MOVES):
        world.decide()
        if world.trainer is None or world.state.is_over:
            return
        if world.rng.random() < chaos:
            world.load()
        world.move()
    raise AssertionError("it never leaves the trainer")


def test_what_was_done_is_saved_before_the_model_leaves() -> None:
    world = a_world(1)
    world.decide()
    while world.state.learning.steps.n_updates < 3:
        world.move()
    n_steps = world.state.learning.steps.n_consumed
    assert not world.state.learning.checkpoints.marks
    drain(world)

    move_until_left(world)

    assert world.state.lease.holder is None
    assert world.state.learning.checkpoints.newest_url in world.checkpoints
    assert world.state.learning.checkpoints.marks[0].step <= n_steps
    assert world.state.run_state is RunState.RUNNING


def test_it_waits_for_another_trainer_and_says_so() -> None:
    world = a_world(2)
    world.decide()
    while world.state.learning.steps.n_updates < 1:
        world.move()
    drain(world)
    move_until_left(world)
    for _ in range(3):
        world.now_s += 10.0
        world.decide()
    assert world.state.waiting.reason == (
        "every trainer of tiny is drained; an admin has one take work again with:"
        " warren workers undrain trainer-0"
    )
    world.n_generations += 1
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), n_moves=st.integers(0, 300), chaos=st.sampled_from((0.0, 0.03)))
def test_a_run_goes_on_elsewhere_to_its_end(seed: int, n_moves: int, chaos: float) -> None:
    world = a_world(seed)
    world.decide()
    for _ in range(n_moves):
        world.move()
    if world.state.is_over or world.trainer is None:
        return
    drain(world)
    move_until_left(world, chaos)
    world.n_generations += 1
    world.drive(chaos)
    assert world.state.run_state is RunState.COMPLETED


@pytest.mark.parametrize("stop_request", [StopRequest.PAUSE, StopRequest.SAVE_AND_CANCEL])
def test_one_that_is_saved_for_its_owner_leaves_by_itself(stop_request: StopRequest) -> None:
    world = a_world(3)
    world.decide()
    while world.state.learning.steps.n_updates < 2:
        world.move()
    world.state.observed.stop_request = stop_request
    world.decide()
    drain(world)
    for _ in range(MOST_MOVES):
        if world.state.run_state in (RunState.PAUSED, RunState.CANCELLED):
            break
        assert world.state.lease.holder is not None
        world.move()
    assert world.state.run_state in (RunState.PAUSED, RunState.CANCELLED)
