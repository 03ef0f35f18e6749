"""A paused run holds nothing: wherever its job is at that moment, it is taken back."""

import random
from collections.abc import Callable

import pytest
from tests.unit.coordinator.test_jobs import closed, taken
from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator import decisions, stopping
from warren_gateway.coordinator.lease import job, trainer_lease
from warren_gateway.stop_request import StopRequest
from warren_schemas.events import RunState
from warren_schemas.ids import WorkerId


def queued(world: World) -> None:
    """The scheduler has not admitted it."""


def admitted(world: World) -> None:
    """Its message has not left yet."""
    job.note_admission(world.state, True)


def sent(world: World) -> None:
    admitted(world)
    job.send(world.state)


def about_to_be_granted(world: World) -> None:
    sent(world)
    taken(world, "one", 1)


def starting(world: World) -> None:
    about_to_be_granted(world)
    trainer_lease.grant(world.state, WorkerId("one"))


def want(world: World, stop_request: StopRequest | None) -> None:
    world.state.observed.stop_request = stop_request
    stopping.carry_out(world.state)


@pytest.mark.parametrize(
    ("bring", "holders"),
    [
        (queued, []),
        (admitted, []),
        (sent, []),
        (about_to_be_granted, [("trainer.one", 1)]),
        (starting, [("trainer.one", 1)]),
    ],
)
def test_a_run_that_is_paused_before_it_runs_holds_no_place(
    bring: Callable[[World], None], holders: list[tuple[str, int]]
) -> None:
    world = World(config(), random.Random(0))
    bring(world)
    world.state.take_change()

    want(world, StopRequest.PAUSE)

    assert world.state.run_state is RunState.PAUSED
    written = world.state.change.job
    assert (written["state"], written["worker"]) == ("queued", None)
    assert written["is_held_back"] and not written["is_interrupted"]
    assert closed(world) == holders
    assert not decisions.wants_trainer(world.state, world.alive)
    job.note_wanted(world.state, False)
    assert not world.state.change.job

    if bring in (sent, about_to_be_granted):
        taken(world, "late", 1)
        assert closed(world) == [("trainer.late", 1)]
        assert world.state.lease.taken_by is None


@pytest.mark.parametrize("bring", [queued, sent, starting])
def test_a_resumed_run_queues_behind_those_that_were_there_before(
    bring: Callable[[World], None],
) -> None:
    world = World(config(), random.Random(0))
    bring(world)
    want(world, StopRequest.PAUSE)
    world.state.take_change()
    world.state.now_s += 500

    want(world, None)

    assert world.state.run_state is RunState.QUEUED
    assert world.state.change.job == {"is_held_back": False, "queued_s": world.state.now_s}
    assert decisions.wants_trainer(world.state, world.alive)
