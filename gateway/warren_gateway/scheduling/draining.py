"""Workers that are drained: what an admin wants is in the store, and workers are told until they say so.

A drained worker takes nothing new, finishes what it can't give away (turns, episodes), and loses its models: the
coordinator of each saves it and has another trainer take it (`coordinator.lease.moving`). So it can be stopped without any
run noticing.

Invariants
- An order is sent again as long as the worker's heartbeats say otherwise: neither a lost message nor a gateway that
  dies after it has answered loses one.
- Being drained ends with the worker's process: its id is never used again.
"""

import asyncio
import logging
import time
from functools import partial

from sqlmodel import Session, col, delete, select

from warren_broker.errors import BrokerUnavailable
from warren_broker.port import Broker
from warren_broker.topology import HEARTBEAT_REQUESTS
from warren_gateway.registry import Registry, Seen
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import DrainedWorker
from warren_schemas.codec.wire import encode
from warren_schemas.control import DrainWorker
from warren_schemas.envelope import Envelope
from warren_schemas.ids import WorkerId

LOOK_S = 2.0
"""Another gateway may have been asked; and until a worker is told again."""
FORGOTTEN_AFTER_S = 7 * 24 * 3600.0
"""What is wanted of a worker that is gone is kept so long."""

log = logging.getLogger(__name__)


class NoSuchWorker(Exception):
    """Nobody of this name is online."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker)
        self.worker = worker


class Draining:
    def __init__(self, store: Store, broker: Broker, registry: Registry) -> None:
        self._store = store
        self._broker = broker
        self._registry = registry
        self._due = asyncio.Event()

    async def want(self, worker: str, *, is_drained: bool) -> Seen:
        """It is to take nothing new, or work again. Raises `NoSuchWorker`, `StoreUnavailable`."""
        if (seen := self._seen().get(worker)) is None:
            raise NoSuchWorker(worker)
        alive = list(self._seen())
        await self._store.transact(partial(_note, worker, is_drained, alive))
        self._due.set()
        return seen

    async def run(self) -> None:
        """Tell workers what is wanted of them; never returns."""
        while True:
            self._due.clear()
            try:
                wanted = await self._store.read(_wanted)
                await self._tell(wanted)
            except (StoreUnavailable, BrokerUnavailable) as error:
                log.warning("orders to drain workers wait: %s", error)
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._due.wait()
            except TimeoutError:
                pass

    async def _tell(self, wanted: frozenset[str]) -> None:
        orders = [
            DrainWorker(envelope=Envelope(), worker=WorkerId(worker), is_drained=worker in wanted)
            for worker, seen in self._seen().items()
            if seen.heartbeat.is_draining != (worker in wanted)
        ]
        for order in orders:
            await self._broker.publish(
                HEARTBEAT_REQUESTS, encode([order]), message_id=order.envelope.id, timeout_s=LOOK_S
            )

    def _seen(self) -> dict[str, Seen]:
        return {seen.heartbeat.worker: seen for seen in self._registry.seen()}


def _wanted(session: Session) -> frozenset[str]:
    return frozenset(session.exec(select(DrainedWorker.worker)))


def _note(worker: str, is_drained: bool, alive: list[str], session: Session) -> None:
    now_s = time.time()
    is_old = col(DrainedWorker.since_s) < now_s - FORGOTTEN_AFTER_S
    session.exec(delete(DrainedWorker).where(is_old, col(DrainedWorker.worker).not_in(alive)))
    row = session.get(DrainedWorker, worker)
    if is_drained and row is None:
        session.add(DrainedWorker(worker=worker, since_s=now_s))
    elif not is_drained and row is not None:
        session.delete(row)
