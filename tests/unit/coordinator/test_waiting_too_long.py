"""A run that may not wait for ever fails with the reason of its wait; driven by a clock."""

import random

import pytest
from sqlmodel import Session
from tests.unit.coordinator.test_stalled import pass_time
from tests.unit.coordinator.world import World, config

from warren_gateway.store.tables import Run
from warren_schemas.config import TrainConfig
from warren_schemas.control import WorkerRole
from warren_schemas.events import RunState, WaitingStarted

LIMIT_S = 600.0


def impatient(wait_s: float | None = LIMIT_S) -> TrainConfig:
    return config(limits={"steps": 6, "episode_s": 36_000, "wait_s": wait_s})


def row(world: World) -> Run:
    with Session(world.engine) as session:
        return session.get_one(Run, world.run)


@pytest.mark.parametrize("role", [WorkerRole.SAMPLER, WorkerRole.ENVIRONMENT])
def test_a_run_that_waits_for_workers_for_too_long_fails_with_the_reason(role: WorkerRole) -> None:
    world = World(impatient(), random.Random(1), away=role)
    pass_time(world, LIMIT_S - 10)
    assert not world.state.is_over
    pass_time(world, 20)
    assert world.state.run_state is RunState.FAILED
    error = row(world).error or ""
    assert error.startswith("it has waited 600 s, and limits.wait_s is 600: no ")
    assert f"no {'sampler' if role is WorkerRole.SAMPLER else 'env worker'} offers" in error


def test_a_run_without_the_limit_waits_on() -> None:
    world = World(impatient(None), random.Random(1), away=WorkerRole.SAMPLER)
    pass_time(world, 100 * LIMIT_S)
    assert not world.state.is_over


def test_a_worker_that_comes_in_time_ends_the_wait() -> None:
    world = World(impatient(), random.Random(1), away=WorkerRole.SAMPLER)
    pass_time(world, LIMIT_S - 10)
    world.away = None
    world.decide()
    assert row(world).waiting_since_s is None
    world.away = WorkerRole.SAMPLER
    pass_time(world, LIMIT_S - 10)
    assert not world.state.is_over, "a new wait begins anew"


def test_the_time_goes_on_counting_when_another_gateway_takes_the_run_over() -> None:
    world = World(impatient(), random.Random(1), away=WorkerRole.SAMPLER)
    for _ in range(5):
        pass_time(world, LIMIT_S / 4)
        if not world.state.is_over:
            world.load()
    assert world.state.run_state is RunState.FAILED


def test_whoever_takes_the_run_over_too_late_looks_first_whether_anything_is_missing() -> None:
    world = World(impatient(), random.Random(1), away=WorkerRole.SAMPLER)
    pass_time(world, LIMIT_S / 2)
    world.now_s += 10 * LIMIT_S
    world.away = None
    world.load()
    world.decide()
    assert not world.state.is_over
    assert row(world).waiting_since_s is None


def test_the_time_without_a_broker_does_not_count() -> None:
    world = World(impatient(), random.Random(1), away=WorkerRole.SAMPLER)
    pass_time(world, LIMIT_S / 2)
    world.state.observed.is_broker_away = True
    pass_time(world, 3 * LIMIT_S)
    world.state.observed.is_broker_away = False
    pass_time(world, LIMIT_S / 2)
    assert not world.state.is_over
    pass_time(world, LIMIT_S)
    assert world.state.run_state is RunState.FAILED


@pytest.mark.parametrize("wait_s", [LIMIT_S, None])
def test_data_sets_that_can_t_be_read_are_waited_for_no_longer_than_that(
    wait_s: float | None,
) -> None:
    world = World(impatient(wait_s), random.Random(1))
    world.state.observed.without_rows = "the folder is not mounted"
    for n_waited in range(int(LIMIT_S) + 10):
        world.now_s += 1.0
        world.stand_still()
        assert world.state.is_over is (wait_s is not None and n_waited >= LIMIT_S)
    assert [
        event.body.reason for event in world.events if isinstance(event.body, WaitingStarted)
    ] == ["the folder is not mounted"]
    if wait_s is not None:
        assert row(world).error == (
            "it has waited 600 s, and limits.wait_s is 600: the folder is not mounted"
        )
