"""A run finishes early, is saved and cancelled, or pauses and goes on, at any moment and under faults."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlmodel import Session, select
from tests.unit.coordinator.world import MOST_MOVES, World, config

from warren_gateway.stop_request import StopRequest
from warren_gateway.store.tables import HistoryRow, Run
from warren_schemas.events import EvaluationCompleted, Phase, RunState, StateChanged

EVERY_STAGE: dict[str, object] = {
    "checkpoint": {"every_steps": 4},
    "sft": {"steps": 2, "episodes_per_step": 8},
    "evaluation": {"episodes": 8, "every_steps": 2},
}


def a_world(seed: int) -> World:
    return World(config(**EVERY_STAGE), random.Random(seed))


def want(world: World, stop_request: StopRequest | None) -> None:
    """As its owner asks for it at some gateway."""
    with Session(world.engine) as session, session.begin():
        session.get_one(Run, world.run).stop_request = stop_request
    world.state.observed.stop_request = stop_request


def move_until_in(world: World, phase: Phase) -> None:
    world.decide()
    while world.state.stage.phase is not phase:
        world.move()


def move_until_paused(world: World, chaos: float = 0.0) -> None:
    for _ in range(MOST_MOVES):
        if world.state.run_state is RunState.PAUSED or world.state.is_over:
            return
        if world.rng.random() < chaos:
            world.rng.choice((world.load, world.kill_trainer))()
        world.move()
    raise AssertionError("it is never paused")


def history(world: World) -> list[tuple[str, str | None]]:
    with Session(world.engine) as session:
        rows = session.exec(select(HistoryRow).order_by(HistoryRow.id))  # pyright: ignore[reportArgumentType]
        return [(row.state, row.reason) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("phase", list(Phase)[:-1])
def test_a_run_finishes_early_from_each_phase(phase: Phase) -> None:
    world = a_world(1)
    move_until_in(world, phase)
    n_steps = world.state.learning.steps.n_consumed

    want(world, StopRequest.FINISH)
    world.drive(0.05)

    assert world.state.run_state is RunState.COMPLETED
    trained = world.state.learning.steps.n_trained
    assert trained <= max(n_steps, 1)
    evaluations = [e.body.when for e in world.events if isinstance(e.body, EvaluationCompleted)]
    assert evaluations[-1] == "after"
    assert world.state.learning.policy.version == world.state.learning.policy.version_issued
    assert not world.state.learning.ops.last or world.listed_checkpoints


def test_a_finished_run_says_who_ended_it_and_after_which_step() -> None:
    world = World(config(), random.Random(3))
    world.decide()
    while world.state.learning.steps.n_updates < 2:
        world.move()

    want(world, StopRequest.FINISH)
    world.drive(0.0)

    with Session(world.engine) as session:
        result = session.get_one(Run, world.run).result
    assert result is not None
    assert "its owner ended it early" in result["remark"]
    assert history(world) == [
        ("starting", "trainer-0 loads tiny"),
        ("running", None),
        ("finishing", "its owner ended it early"),
        ("finishing", "its last checkpoint"),
        ("completed", result["remark"]),
    ]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_moves=st.integers(0, 400),
    stop_request=st.sampled_from((StopRequest.SAVE_AND_CANCEL, StopRequest.CLIENT_GONE)),
)
def test_a_run_is_saved_before_it_is_cancelled(
    seed: int, n_moves: int, stop_request: StopRequest
) -> None:
    world = a_world(seed)
    world.decide()
    for _ in range(n_moves):
        world.move()
    if world.state.is_over:
        return
    n_updates = world.state.learning.policy.version_issued

    want(world, stop_request)
    world.drive(0.05)

    assert world.state.run_state is RunState.CANCELLED
    assert world.state.learning.policy.version_issued == n_updates
    if n_updates:
        newest = world.state.learning.checkpoints.newest_url
        assert newest is not None
        assert world.checkpoints[newest][1] == n_updates
        was_gone = stop_request is StopRequest.CLIENT_GONE
        why = "cancelled, for its client was gone" if was_gone else "cancelled by its owner"
        assert history(world)[-1][1] == f"{why}; saved as {newest}"


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), n_moves=st.integers(0, 400))
def test_a_paused_run_holds_no_trainer_and_goes_on_to_its_end(seed: int, n_moves: int) -> None:
    world = a_world(seed)
    world.decide()
    for _ in range(n_moves):
        world.move()
    if world.state.is_over:
        return

    want(world, StopRequest.PAUSE)
    move_until_paused(world, chaos=0.02)
    assert world.state.lease.holder is None
    n_started, n_ops = len(world.episodes), world.state.learning.ops.last
    for _ in range(100):
        if world.rng.random() < 0.05:
            world.load()
        world.rng.choice((world.train, world.read_mail))()
    assert (len(world.episodes), world.state.learning.ops.last) == (n_started, n_ops)
    assert world.state.lease.holder is None

    want(world, None)
    if world.rng.random() < 0.5:
        world.load()
    world.episodes.clear()
    world.drive(0.0)

    assert world.state.run_state is RunState.COMPLETED
    assert world.state.learning.steps.n_trained == world.config.limits.steps
    assert max(world.trained_episodes.values(), default=1) == 1
    states = [state for state, _ in history(world)]
    paused = states.index("paused")
    assert states[paused + 1] == "queued"


def test_a_pause_that_is_taken_back_at_once_loses_nothing() -> None:
    world = a_world(7)
    move_until_in(world, Phase.TRAINING)
    want(world, StopRequest.PAUSE)
    world.decide()
    want(world, None)
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED


def test_everybody_who_follows_hears_of_a_pause() -> None:
    world = a_world(2)
    move_until_in(world, Phase.TRAINING)
    want(world, StopRequest.PAUSE)
    move_until_paused(world)
    told = [e.body for e in world.events if isinstance(e.body, StateChanged)]
    assert (told[-1].state, told[-1].reason) == (RunState.PAUSED, "paused by its owner")
