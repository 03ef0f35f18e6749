"""What a name is served from stays, whenever it was named and whatever dies."""

import random

import pytest
from sqlmodel import Session, col, delete, select
from tests.unit.coordinator.test_changed_limits import begin_again, move
from tests.unit.coordinator.world import World, config

from warren_broker.topology import RUN_CHANGES
from warren_gateway.access.caller import Viewer
from warren_gateway.coordinator import records
from warren_gateway.coordinator.run_leases import LimitsChanged
from warren_gateway.inference.names import point_name
from warren_gateway.inference.pinning import CannotServe
from warren_gateway.runs.kept_versions import KEPT_S
from warren_gateway.store.tables import OutboxRow, Run, ServedRow
from warren_schemas.config import TrainConfig
from warren_schemas.http import ServeModel
from warren_schemas.training import KEEP_POLICIES

ME = Viewer("me")


def world_of(seed: int) -> World:
    """Every step of it makes an update: a version."""
    return World(long_run(), random.Random(seed), rewards=tuple(n / 100 for n in range(100)))


def long_run() -> TrainConfig:
    """Whose checkpoints lie further apart than the policies that a trainer keeps."""
    return config(
        algorithm={"group_size": 2, "groups_per_step": 1, "max_staleness": 4},
        limits={"steps": KEEP_POLICIES + 20, "episode_s": 50, "episode_attempts": 2},
        checkpoint={"every_steps": KEEP_POLICIES + 10},
    )


def serve(world: World, name: str, step: int) -> int | None:
    """The version that is served from now on."""
    wanted = ServeModel(name=name, run=world.run, step=step)
    with Session(world.engine) as session, session.begin():
        return point_name(ME, wanted, session).version


def n_steps(world: World) -> int:
    with Session(world.engine) as session:
        return session.exec(select(Run.step).where(col(Run.id) == world.run)).one()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_version_that_is_served_is_there_as_long_as_its_name(seed: int) -> None:
    world = world_of(seed)
    served = set[int]()
    while not world.state.is_over:
        chance = world.rng.random()
        if chance < 0.01:
            world.rng.choice((lambda: begin_again(world), world.kill_trainer))()
        elif chance < 0.04 and (newest := n_steps(world)):
            step = world.rng.randint(max(0, newest - KEEP_POLICIES - 4), newest)
            try:
                version = serve(world, f"name-{len(served)}", step)
            except CannotServe:
                continue
            served.add(version or 0)
        move(world)
        assert served - {0} <= world.kept
    assert served, "nothing was served"


@pytest.mark.slow
def test_a_name_that_points_elsewhere_keeps_its_version_for_those_under_way() -> None:
    world = world_of(1)
    while n_steps(world) < 3:
        move(world)
    assert serve(world, "helper", 1) == 1
    assert serve(world, "helper", 3) == 3
    while n_steps(world) < KEEP_POLICIES + 10:
        move(world)
    assert {1, 3} <= world.kept
    with Session(world.engine) as session, session.begin():
        (old,) = session.exec(select(ServedRow).where(col(ServedRow.until_s).is_not(None)))
        old.until_s = world.now_s - KEPT_S
    begin_again(world)
    while not world.state.is_over:
        move(world)
    assert 3 in world.kept and 1 not in world.kept


def test_no_step_is_taken_that_was_decided_without_what_is_served() -> None:
    """The coordinator has not heard of the name: what it decides is void, and it begins again."""
    world = world_of(4)
    while n_steps(world) < 3:
        move(world)
    assert serve(world, "helper", 1) == 1
    with Session(world.engine) as session, session.begin():
        session.exec(delete(OutboxRow).where(col(OutboxRow.address) == RUN_CHANGES.name))
    with pytest.raises(LimitsChanged):
        while not world.state.is_over:
            world.move()
    begin_again(world)
    while not world.state.is_over:
        move(world)
    assert 1 in world.kept


def test_a_policy_that_ops_in_the_log_will_delete_is_not_served() -> None:
    world = world_of(2)
    while n_steps(world) < KEEP_POLICIES + 2:
        move(world)
    with pytest.raises(CannotServe, match="policies that are: steps"):
        serve(world, "helper", 1)
    with pytest.raises(CannotServe, match="has taken"):
        serve(world, "helper", 10_000)


def test_a_coordinator_that_takes_over_knows_what_is_served() -> None:
    world = world_of(3)
    while n_steps(world) < 2:
        move(world)
    serve(world, "helper", 2)
    with Session(world.engine) as session:
        assert records.load(session, world.run, world.now_s).observed.served == ((2, None),)
