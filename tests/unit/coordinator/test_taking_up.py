"""A run that is taken up: what is told of it meanwhile is not lost, and whoever lost it leaves nothing behind."""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import create_engine, update
from sqlmodel import Session
from tests.support.brokers import PATIENCE_S, eventually
from tests.unit.coordinator.world import MODEL, RUN, World, config

from warren_broker.port import Broker
from warren_broker.topology import results
from warren_gateway.coordinator.service import Coordinators
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.registry import Registry
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Run

T = TypeVar("T")


class ToldMeanwhile(Store):
    """The run's row changes, and the gateway is told, once the row was read."""

    coordinators: Coordinators | None = None

    async def read(self, work: Callable[[Session], T]) -> T:
        result = await super().read(work)
        if isinstance(result, CoordinatorState) and (told := self.coordinators) is not None:
            self.coordinators = None
            cancelled = update(Run).values(is_cancel_requested=True)
            await super().transact(lambda session: session.exec(cancelled))
            told.notify(RUN)
        return result


async def test_a_change_between_the_reading_of_a_run_and_its_first_decision_is_seen(
    tmp_path: Path, broker: Broker
) -> None:
    path = f"sqlite:///{tmp_path / 'warren.db'}"
    store = await ToldMeanwhile.open(path)
    assert isinstance(store, ToldMeanwhile)
    World(config(), random.Random(1), engine=create_engine(path), now_s=time.time())
    registry, relay = Registry(broker), Relay(store, broker)
    store.coordinators = Coordinators(
        store, broker, registry, relay, driving=lambda _: None, lease_s=8 * PATIENCE_S
    )

    async def is_cancelled() -> bool:
        run = await store.transact(lambda session: session.get_one(Run, RUN))
        return run.state == "cancelled"

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(store.coordinators.run())
        await eventually(is_cancelled)
        running.cancel()
    await store.close()


async def test_whoever_has_lost_a_run_that_ended_meanwhile_leaves_no_queue(
    tmp_path: Path, broker: Broker
) -> None:
    """The other gateway has deleted the queues; a consumer that was cut off then has made its own anew."""
    path = f"sqlite:///{tmp_path / 'warren.db'}"
    store = await Store.open(path)
    World(config(), random.Random(1), engine=create_engine(path), now_s=time.time())
    coordinators = Coordinators(
        store,
        broker,
        Registry(broker),
        Relay(store, broker),
        driving=lambda _: None,
        lease_s=8 * PATIENCE_S,
    )
    ended = update(Run).values(epoch=Run.epoch + 1, state="failed", is_cancel_requested=True)

    async def is_driven() -> bool:
        return await broker.depth(results(MODEL)) is not None

    async def is_gone() -> bool:
        return await broker.depth(results(MODEL)) is None

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(coordinators.run())
        await eventually(is_driven)
        await store.transact(lambda session: session.exec(ended))
        coordinators.notify(RUN)
        await eventually(is_gone)
        running.cancel()
    await store.close()
