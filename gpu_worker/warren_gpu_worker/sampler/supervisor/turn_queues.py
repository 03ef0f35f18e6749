"""Turns come in from two queues: the one that all samplers share, and this sampler's own.

In its own lie the next turns of episodes whose turns it took before: it has their transcripts cached,
so only what is new must be computed. An engine without such a cache has no queue of its own.

Invariants: a sampler that is drained takes nothing from either, and finishes what it has taken. Nothing is taken before the child has loaded the model, nor while there is no child: what
comes from the shared queue meanwhile goes back there. (For a child that sleeps it waits: turns are
what wakes it.) Each queue has a capacity of its own, so neither keeps the other waiting. A turn in this
sampler's own queue, which nobody else may take from, never waits for capacity or for a child that is not
at work: it is passed on to the shared queue, and its claim is settled once that is confirmed.
"""

import asyncio
import logging
from collections.abc import Sequence

from warren_broker.inbox import Claim, Inbox, receive
from warren_broker.port import Broker
from warren_broker.topology import Home, WorkQueue, generate, sampler_home
from warren_broker.worker.draining import Draining
from warren_gpu_worker.sampler.supervisor.open_turns import TurnSource
from warren_gpu_worker.sampler.supervisor.turn_dispatcher import TurnDispatcher
from warren_schemas.episode import Generate

_ELSEWHERE_S = 3.0
"""A turn that comes while there is no child stays out of its queue for so long: another sampler has
time to take the next one, and a lone sampler does not go round in circles, for whole transcripts
travel each time."""

log = logging.getLogger(__name__)


async def take_turns(
    broker: Broker, dispatcher: TurnDispatcher, *, max_batch: int, draining: Draining
) -> None:
    """Take turns of this base model until cancelled.

    `max_batch` limits the messages in hand, each of which may be a single turn. Of its own there may
    be so many that it always has a hand free to pass one on.
    """
    base_model = dispatcher.process.base_model
    queue, own = generate(base_model), sampler_home(dispatcher.worker, base_model)
    await broker.declare(queue)
    await dispatcher.process.ready()
    log.info("sampling from %s", base_model)
    async with asyncio.TaskGroup() as tasks:
        shared = _take(broker, queue, _Shared(dispatcher), draining, prefetch=max_batch)
        tasks.create_task(shared, name=f"take {queue.name}")
        if dispatcher.process.caches_prefixes:
            returning = _take(broker, own, _Returning(dispatcher), draining, prefetch=4 * max_batch)
            tasks.create_task(returning, name=f"take {own.name}")


class _Shared:
    source = TurnSource.SHARED

    def __init__(self, dispatcher: TurnDispatcher) -> None:
        self.dispatcher = self._dispatcher = dispatcher

    async def take(self, claims: Sequence[Claim[Generate]]) -> None:
        """Begin these turns, or hand them back; returns when the next ones can be seen to."""
        if self._dispatcher.process.has_child:
            self._dispatcher.take(claims, TurnSource.SHARED)
            await self._until_next()
            return
        for claim in claims:
            claim.hand_back(delay_s=_ELSEWHERE_S)

    async def _until_next(self) -> None:
        """It is no longer full, or there is no child any more: what comes then is for others."""
        if not self._dispatcher.turns.is_full(TurnSource.SHARED):
            return
        ends = (
            self._dispatcher.turns.until_not_full(TurnSource.SHARED),
            self._dispatcher.process.until_childless(),
        )
        waiting = [asyncio.ensure_future(end) for end in ends]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in waiting:
                end.cancel()


class _Returning:
    source = TurnSource.OWN

    def __init__(self, dispatcher: TurnDispatcher) -> None:
        self.dispatcher = self._dispatcher = dispatcher
        self._shared = generate(dispatcher.process.base_model)

    async def take(self, claims: Sequence[Claim[Generate]]) -> None:
        """Begin these turns at once, or pass them on."""
        dispatcher = self._dispatcher
        if dispatcher.process.is_at_work and not dispatcher.turns.is_full(TurnSource.OWN):
            dispatcher.take(claims, TurnSource.OWN)
            return
        for claim in claims:
            dispatcher.publisher.put(self._shared, claim.item, [claim])


async def _take(
    broker: Broker,
    source: WorkQueue | Home,
    way: _Shared | _Returning,
    draining: Draining,
    *,
    prefetch: int,
) -> None:
    while True:
        await draining.until(False)
        async with receive(broker, source, Generate, prefetch=prefetch) as inbox:
            stopping = asyncio.create_task(
                _stop_when_drained(inbox, draining), name=f"{source.name} when drained"
            )
            try:
                async for claims in inbox:
                    await way.take(claims)
                if draining.is_draining:  # what was taken is finished, and not given back
                    await way.dispatcher.turns.until_empty(way.source)
            finally:
                stopping.cancel()
                await asyncio.wait([stopping])
        if not draining.is_draining:
            log.warning("%s was deleted; making it again", source.name)


async def _stop_when_drained(inbox: Inbox[Generate], draining: Draining) -> None:
    await draining.until(True)
    await inbox.stop()
