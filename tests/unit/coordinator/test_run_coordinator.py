"""A coordinator over a real store and broker, after a time in which nobody read, and when all goes wrong."""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import create_engine, update
from sqlmodel import Session
from tests.support.brokers import PATIENCE_S, eventually
from tests.unit.coordinator.world import RUN, World, config

from warren_broker.port import Broker
from warren_gateway.coordinator import decisions, records
from warren_gateway.coordinator.mailbox import Mail, Mailbox
from warren_gateway.coordinator.rollouts import failure_limits
from warren_gateway.coordinator.rollouts.fair_shares import Shares
from warren_gateway.coordinator.run_coordinator import RunCoordinator
from warren_gateway.coordinator.service import Coordinators
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.rows import Rows
from warren_gateway.datasets.problems import FilesUnavailable
from warren_gateway.registry import Registry
from warren_gateway.runs.streams import recording
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import Run
from warren_schemas.codec.wire import encode
from warren_schemas.config import TrainConfig
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.events import RunState
from warren_schemas.ids import new_message_id

T = TypeVar("T")
AGO_S = 100.0
"""The world's episodes started so long ago, and have half of it as their time."""


@pytest.fixture
def world(store: Store, tmp_path: Path) -> World:
    """In the store of the test: episodes are in flight, and late."""
    engine = create_engine(f"sqlite:///{tmp_path / 'warren.db'}")
    world = World(config(), random.Random(1), engine=engine, now_s=time.time() - AGO_S)
    world.decide()
    while not world.state.rollouts.groups:
        world.train()
        world.read_mail()
    return world


async def record(world: World, broker: Broker) -> None:
    """Every episode in flight has ended, and nobody has read of it."""
    while world.episodes:
        world.finish_episode()
    stream = recording(world.run, world.config)
    await broker.declare(stream)
    for ended in world.stream:
        await broker.publish(stream, encode([ended]), message_id=new_message_id())


def a_coordinator(
    world: World,
    state: CoordinatorState,
    store: Store,
    broker: Broker,
    mailbox: Mailbox | None = None,
) -> RunCoordinator:
    registry = Registry(broker)
    for beat in world.alive(None):
        registry.hear(beat)
    relay, shares = Relay(store, broker), Shares(registry)
    return RunCoordinator(
        state, store, broker, registry, relay, shares, mailbox=mailbox, retry_s=0.0
    )


async def load(store: Store) -> CoordinatorState:
    return await store.transact(lambda session: records.load(session, RUN, time.time()))


async def until_trained_on(state: CoordinatorState, coordinator: RunCoordinator) -> None:
    async def is_trained_on() -> bool:
        return state.learning.steps.n_consumed > 0

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(coordinator.run())
        await eventually(is_trained_on)
        running.cancel()


async def state_of(store: Store) -> tuple[str, str | None]:
    run = await store.transact(lambda session: session.get_one(Run, RUN))
    return run.state, run.error


async def test_episodes_that_ended_while_no_gateway_was_there_are_not_played_again(
    world: World, store: Store, broker: Broker
) -> None:
    await record(world, broker)
    state = await load(store)

    await until_trained_on(state, a_coordinator(world, state, store, broker))

    assert failure_limits.n_failed(state.rollouts) == 0


class OnceAway(Store):
    """The first transaction finds it away, for longer than the episodes have."""

    state: CoordinatorState | None = None

    async def transact(self, work: Callable[[Session], T]) -> T:
        if self.state is not None:
            for group in self.state.rollouts.groups.values():
                self.state.rollouts.groups.set_deadline(group, 0.0)
            self.state = None
            raise StoreUnavailable("away")
        return await super().transact(work)


async def test_episodes_that_ended_while_the_store_was_away_are_not_played_again(
    world: World, tmp_path: Path, broker: Broker
) -> None:
    await record(world, broker)
    store = await OnceAway.open(f"sqlite:///{tmp_path / 'warren.db'}")
    assert isinstance(store, OnceAway)
    state = await load(store)
    coordinator = a_coordinator(world, state, store, broker)
    coordinator.notify()  # it looks into the store with its first mail
    store.state = state

    await until_trained_on(state, coordinator)

    assert store.state is None
    assert failure_limits.n_failed(state.rollouts) == 0
    await store.close()


class Slept(Mailbox):
    """The first look into it takes the machine longer than the episodes have."""

    def __init__(self, state: CoordinatorState) -> None:
        super().__init__()
        self.state: CoordinatorState | None = state

    async def take(self, timeout_s: float) -> Mail:
        if self.state is None:
            return await super().take(timeout_s)
        self.state.now_s -= AGO_S
        for group in self.state.rollouts.groups.values():
            self.state.rollouts.groups.set_deadline(group, 0.0)
        self.state = None
        return Mail()


async def test_episodes_that_ended_while_the_machine_slept_are_not_played_again(
    world: World, store: Store, broker: Broker
) -> None:
    await record(world, broker)
    state = await load(store)
    mailbox = Slept(state)

    await until_trained_on(state, a_coordinator(world, state, store, broker, mailbox))

    assert mailbox.state is None

    assert failure_limits.n_failed(state.rollouts) == 0


async def test_an_end_that_was_never_committed_is_written_after_all(
    world: World, store: Store, broker: Broker
) -> None:
    state = await load(store)
    state.run_state = RunState.FAILED

    await a_coordinator(world, state, store, broker).fail("it broke")

    assert await state_of(store) == ("failed", "it broke")


async def test_a_run_fails_although_what_it_had_begun_is_void(
    world: World, store: Store, broker: Broker
) -> None:
    world.now_s += AGO_S
    while world.state.rollouts.n_admitted < 4:
        world.train()
        world.read_mail()
    state = await load(store)
    state.rollouts.groups.clear()
    state.rollouts.n_admitted = 0
    decisions.decide(state, world.alive)
    assert state.change.admitted

    await a_coordinator(world, state, store, broker).fail("it broke")

    assert await state_of(store) == ("failed", "it broke")


class FailsOnce(Store):
    """The first transaction that ends the run as failed finds an error of the database."""

    has_failed = False

    async def transact(self, work: Callable[[Session], T]) -> T:
        def failing(session: Session) -> T:
            result = work(session)
            if not self.has_failed and session.get_one(Run, RUN).state == RunState.FAILED:
                self.has_failed = True
                raise ValueError("the end of the run")
            return result

        return await super().transact(failing)


class FailingRegistry(Registry):
    """Whoever asks it first, the coordinator for its decision, gets an error of ours."""

    n_asked = 0

    def alive(self, role: WorkerRole | None = None) -> list[Heartbeat]:
        self.n_asked += 1
        if self.n_asked == 1:
            raise ValueError("the decision")
        return super().alive(role)


@pytest.mark.parametrize(
    ("error", "is_cancelled", "end"),
    [
        (FilesUnavailable("the folder is not mounted"), True, "cancelled"),
        (ValueError("no line of JSON"), False, "failed"),
    ],
)
async def test_a_run_whose_data_set_can_t_be_read_ends(
    world: World, tmp_path: Path, broker: Broker, error: Exception, is_cancelled: bool, end: str
) -> None:
    """As its owner wants it where the folder may come back; by itself where what is there is wrong."""
    store = await Store.open(f"sqlite:///{tmp_path / 'warren.db'}")
    wanted = update(Run).values(is_cancel_requested=is_cancelled)
    await store.transact(lambda session: session.exec(wanted))

    async def unreadable(_: TrainConfig) -> Rows:
        raise error

    coordinators = Coordinators(
        store,
        broker,
        Registry(broker),
        Relay(store, broker),
        driving=lambda _: None,
        open_rows=unreadable,
    )

    async def has_ended() -> bool:
        return (await state_of(store))[0] == end

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(coordinators.run())
        await eventually(has_ended)
        running.cancel()
    await store.close()


async def test_a_run_whose_data_sets_can_t_be_read_says_so_and_goes_on_when_they_are_back(
    world: World, store: Store, broker: Broker
) -> None:
    """As it was before: its time for the first ending does not run meanwhile."""
    is_mounted = asyncio.Event()

    async def opened(_: TrainConfig) -> Rows:
        if not is_mounted.is_set():
            raise FilesUnavailable("the folder is not mounted")
        return {}

    registry = Registry(broker)
    for beat in world.alive(None):
        registry.hear(beat)
    coordinators = Coordinators(
        store, broker, registry, Relay(store, broker), driving=lambda _: None, open_rows=opened
    )

    async def waits() -> bool:
        return await waiting_for(store) == f"the folder is not mounted; {GOES_ON}"

    async def goes_on() -> bool:
        return await waiting_for(store) != f"the folder is not mounted; {GOES_ON}"

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(coordinators.run())
        await eventually(waits)
        is_mounted.set()
        await eventually(goes_on)
        running.cancel()
    assert (await state_of(store))[0] not in ("failed", "cancelled")


GOES_ON = "the run goes on by itself when it can"


async def waiting_for(store: Store) -> str | None:
    return await store.transact(lambda session: session.get_one(Run, RUN).waiting_for)


async def test_a_run_whose_failure_can_t_be_written_ends_no_other(
    world: World, tmp_path: Path, broker: Broker
) -> None:
    """It is tried again, and then goes where its owner wants it."""
    store = await FailsOnce.open(f"sqlite:///{tmp_path / 'warren.db'}")
    assert isinstance(store, FailsOnce)
    await store.transact(lambda session: session.exec(update(Run).values(is_cancel_requested=True)))
    registry = FailingRegistry(broker)
    coordinators = Coordinators(
        store, broker, registry, Relay(store, broker), driving=lambda _: None
    )

    async def is_cancelled() -> bool:
        return (await state_of(store))[0] == "cancelled"

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(coordinators.run())
        await eventually(is_cancelled)
        running.cancel()
    assert registry.n_asked > 1
    assert store.has_failed
    await store.close()
