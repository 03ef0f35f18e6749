"""A store that lost its newest commits: a power cut, or an old copy that was put back.

Workers have gone on with what it no longer knows. The run completes all the same, or says why it can't.
"""

import random
import sqlite3
from typing import cast

import pytest
from sqlmodel import Session, create_engine
from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator import answering, records
from warren_gateway.coordinator.lease import trainer_lease
from warren_schemas.events import RunState
from warren_schemas.training import OpDone, OpFailed, OpResult

MOST_MOVES = 3_000
NEVER = 1_000_000


def connection(world: World) -> sqlite3.Connection:
    with world.engine.connect() as connected:
        return cast("sqlite3.Connection", connected.connection.driver_connection)


def copy_of(world: World) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", check_same_thread=False)
    connection(world).backup(copy)
    return copy


def put_back(world: World, copy: sqlite3.Connection) -> None:
    """The coordinator starts over, as `RunCoordinator` does."""
    world.engine.dispose()
    world.engine = create_engine("sqlite://")
    copy.backup(connection(world))
    world.load()
    world.answers.clear()  # they were taken, and acked
    world.applied = {}  # the log may go another way from here on
    world.state.now_s = world.now_s
    with Session(world.engine) as session, session.begin():
        records.send_unanswered(session, world.state)
    world.decide()


def move_until(world: World, is_reached: int) -> None:
    """So many ops are in the log, or the run is over."""
    for _ in range(MOST_MOVES):
        if world.state.is_over or world.state.learning.ops.last >= is_reached:
            return
        world.move()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_a_run_whose_store_lost_its_newest_commits_completes_or_says_why(seed: int) -> None:
    world = World(config(), random.Random(seed))
    world.decide()
    move_until(world, is_reached=seed)
    copy = copy_of(world)
    for _ in range(5 * (seed % 8)):
        world.move()
    put_back(world, copy)

    move_until(world, NEVER)

    state = world.state
    if state.run_state is RunState.FAILED:
        assert "has lost its newest changes" in world.error
    else:
        assert state.run_state is RunState.COMPLETED
        assert state.learning.ops.done == state.learning.ops.last
        assert all(len(weights) == 1 for weights in world.weights_published.values())


def test_answers_that_were_lost_are_asked_for_again() -> None:
    world = World(config(), random.Random(1))
    world.decide()
    move_until(world, 2)
    copy = copy_of(world)
    assert world.trainer is not None
    while world.trainer.waiting:
        world.train()
    assert world.answers
    put_back(world, copy)
    assert {answer.number for answer in world.answers} >= {1, 2}
    assert world.drive(chaos=0.0).run_state is RunState.COMPLETED


def test_a_trainer_with_a_newer_lease_than_the_store_loses_it() -> None:
    world = World(config(), random.Random(1))
    world.decide()
    copy = copy_of(world)
    for _ in range(3):
        world.kill_trainer()
        world.decide()
    assert world.trainer is not None and world.trainer.epoch == 4
    put_back(world, copy)
    assert world.trainer.epoch == 5, "an epoch never comes twice"
    assert world.drive(chaos=0.0).run_state is RunState.COMPLETED


def test_an_answer_to_another_op_of_the_number_counts_for_nothing() -> None:
    world = World(config(), random.Random(1))
    world.decide()
    move_until(world, 2)
    state = world.state
    foreign = OpResult(
        envelope=world.stream[0].envelope,
        model=world.model,
        epoch=state.lease.epoch,
        number=state.learning.ops.done + 1,
        op=world.stream[0].envelope.id,
        outcome=OpDone(version=1),
    )
    before = state.learning.ops.done
    answering.absorb_answer(state, foreign)
    assert state.learning.ops.done == before


def test_a_model_that_has_published_what_the_log_lost_ends_its_run_with_the_reason() -> None:
    world = World(config(), random.Random(1))
    assert trainer_lease.gone_ahead(world.state, 1, 3) == (
        "the trainer has policy version 3, and the store knows of none after 0: it has lost its newest"
        " changes (a power cut, or an old copy put back). Go on from a checkpoint in a new run, with"
        " resume_from"
    )


@pytest.mark.parametrize("is_answered", [False, True])
def test_an_op_whose_answer_the_trainer_has_forgotten_is_no_end_without_reason(
    is_answered: bool,
) -> None:
    """A store that was put back asks for it; one that has the answer had only sent the op twice."""
    world = World(config(), random.Random(1))
    world.decide()
    while not world.state.learning.ops.done:
        world.move()
    state = world.state
    forgotten = OpResult(
        envelope=world.stream[0].envelope,
        model=world.model,
        epoch=state.lease.epoch,
        number=state.learning.ops.done + (not is_answered),
        op=world.stream[0].envelope.id,
        outcome=OpFailed(reason="its answer is not kept any more", ahead_version=600),
    )
    state.learning.ops.last = max(state.learning.ops.last, forgotten.number)
    answering.absorb_answer(state, forgotten)
    assert state.is_over is not is_answered
    assert is_answered or state.run_state is RunState.FAILED
