"""All coordinators of this gateway: one actor for each run that is not over."""

import asyncio
import logging
import time
from typing import cast

from warren_broker.errors import BrokerClosed
from warren_broker.port import Broker
from warren_gateway.coordinator import records
from warren_gateway.coordinator.actor import RETRY_S, RunActor
from warren_gateway.coordinator.memory import Memory
from warren_gateway.registry import Registry
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store, StoreUnavailable
from warren_schemas.ids import RunId, new_id

log = logging.getLogger(__name__)


class Coordinators:
    """Invariant: a run has at most one actor, and an actor's failure ends only its own run."""

    def __init__(self, store: Store, broker: Broker, registry: Registry, relay: Relay) -> None:
        self._store = store
        self._broker = broker
        self._registry = registry
        self._relay = relay
        self._actors: dict[RunId, RunActor] = {}
        self._wanted: asyncio.Queue[RunId] = asyncio.Queue()

    def notify(self, run_id: RunId) -> None:
        """The run was submitted, or its row has changed."""
        actor = self._actors.get(run_id)
        if actor is not None:
            actor.notify()
        else:
            self._wanted.put_nowait(run_id)

    async def run(self) -> None:
        """Take up what was left unfinished, then whatever comes; never returns."""
        for run_id in await self._store.transact(records.unfinished):
            self._wanted.put_nowait(run_id)
        async with asyncio.TaskGroup() as tasks:
            while True:
                run_id = await self._wanted.get()
                if run_id in self._actors:
                    self._actors[run_id].notify()
                    continue
                memory = await self._load(run_id)
                if memory is None:
                    continue
                actor = RunActor(memory, self._store, self._broker, self._registry, self._relay)
                self._actors[run_id] = actor
                tasks.create_task(self._supervise(run_id, actor), name=f"coordinator {run_id}")

    async def _load(self, run_id: RunId) -> Memory | None:
        """The run's memory, tried again until the store is there."""
        while True:
            try:
                return await self._store.transact(
                    lambda session: records.load(session, run_id, time.time())
                )
            except StoreUnavailable as error:
                log.warning("%s waits for the store: %s", run_id, error)
                await asyncio.sleep(RETRY_S)

    async def _supervise(self, run_id: RunId, actor: RunActor) -> None:
        try:
            await actor.run()
        except Exception as error:
            if _is_stopping(error):
                return
            error_id = new_id("err")
            log.exception("%s: the coordinator of %s failed", error_id, run_id)
            await actor.fail(f"internal error {error_id}; the gateway's log has the details")
        finally:
            del self._actors[run_id]


def _is_stopping(error: Exception) -> bool:
    """The broker's client was closed under the run: the gateway stops, and the run goes on later."""
    if isinstance(error, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", error).exceptions
        return all(_is_stopping(one) for one in inner)
    return isinstance(error, BrokerClosed)
