"""The scheduler of this gateway: decides whenever something has changed."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial

from warren_gateway.advice import SEPARATE_WORKERS, Advice
from warren_gateway.registry import Registry
from warren_gateway.scheduling.decision import Place
from warren_gateway.scheduling.passes import Outcome, run_pass
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.http import QueuePlace
from warren_schemas.ids import RunId

TICK_S = 5.0
"""A decision is made so often though nobody told of a change: another gateway may have made one."""
RETRY_S = 1.0
REST = 2.0
"""Between two decisions, in the time that the first one took."""

log = logging.getLogger(__name__)


class Scheduler:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        relay: Relay,
        *,
        due: asyncio.Event,
        admitted: Callable[[RunId], None],
        advice: Advice = SEPARATE_WORKERS,
        limits: OwnerLimits = DEFAULT_LIMITS,
        tick_s: float = TICK_S,
    ) -> None:
        """`due` is set by whoever has changed a job; `admitted` is told of every run that may go on, has to get ready, or
        has to end, which takes a coordinator."""
        self._store = store
        self._registry = registry
        self._relay = relay
        self._due = due
        self._admitted = admitted
        self._advice = advice
        self._limits = limits
        self._tick_s = tick_s
        self._places: Mapping[RunId, Place] = {}

    def notify(self, run: RunId) -> None:
        """The run was submitted, or cancelled."""
        self._due.set()

    def place(self, run: str) -> QueuePlace | None:
        """Where a run stood at the last decision."""
        place = self._places.get(RunId(run))
        return place and QueuePlace(
            number=place.number,
            n_ahead_own=place.n_ahead_own,
            n_ahead_others=place.n_ahead_others,
            reason=place.reason,
        )

    def n_queued(self) -> int:
        """Jobs that waited for a trainer at the last decision."""
        return len(self._places)

    async def run(self) -> None:
        """Never returns."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_workers(), name="trainers for the scheduler")
            while True:
                self._due.clear()
                began_s = time.monotonic()
                wait_s = await self._decide()
                # Changes that come in a burst are decided on together, however long the queue is.
                await asyncio.sleep(REST * (time.monotonic() - began_s))
                try:
                    async with asyncio.timeout(wait_s):
                        await self._due.wait()
                except TimeoutError:
                    pass

    async def _decide(self) -> float:
        """How long until the next decision, unless something changes."""
        now_s, workers = time.time(), self._registry.alive()
        work = partial(
            run_pass, workers=workers, advice=self._advice, now_s=now_s, limits=self._limits
        )
        try:
            outcome = await self._store.transact(work)
        except StoreUnavailable as error:
            log.warning("the scheduler waits for the store: %s", error)
            return RETRY_S
        self._tell(outcome)
        next_s = outcome.told.next_s
        return self._tick_s if next_s is None else max(0.0, min(self._tick_s, next_s - now_s))

    def _tell(self, outcome: Outcome) -> None:
        self._places = outcome.places
        if outcome.told.has_told or outcome.has_orders:
            self._relay.notify()
        for run in (*outcome.admitted, *outcome.next, *outcome.given_up):
            self._admitted(run)

    async def _watch_workers(self) -> None:
        seen = self._registry.generation
        while True:
            await self._registry.changed(seen)
            seen = self._registry.generation
            self._due.set()
