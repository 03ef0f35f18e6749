"""Making sure that a home outlives what is published to it, and that a dead one is forgotten.

The server deletes a home that had no consumer for a while, and with it any message that came in the
last moments. So before publishing we hold a lease: we have seen a moment ago, less than `LEASE_GRACES` times
the home's grace and half of its life, that the home has a consumer. One that has none, perhaps only for a moment, gets its life renewed
once, by trying to get a message from it (`broken_queues`). If it still has none at the next look, or
gives no answer, messages go straight to the fallback, where the home would send them. One without a
process counts as forgotten, and is deleted.

Invariant: nothing is published to a home that could be deleted before the message has fallen back.
"""

import asyncio
from functools import partial

from aio_pika.abc import AbstractChannel
from pamqp.commands import Queue

from warren_broker.errors import Unroutable
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.entities.broken_queues import Condition, ask, remove
from warren_broker.rabbitmq.entities.declare_calls import inspect
from warren_broker.rabbitmq.entities.entities import Entities
from warren_broker.topology import Home, WorkQueue

LEASE_GRACES = 5


class HomeLeases:
    def __init__(self, link: Link, entities: Entities) -> None:
        self._link = link
        self._entities = entities
        self._until: dict[str, float] = {}
        """On the event loop's clock, by the name at the server."""
        self._lonely: set[str] = set()
        """Homes whose life was renewed while they had no consumer."""
        self._looking: dict[str, asyncio.Task[bool]] = {}

    async def destination(self, home: Home, *, timeout_s: float) -> Home | WorkQueue:
        """Where to publish what is for this home. Raises `Unroutable` when it was forgotten."""
        name = self._entities.name(home)
        if self._until.get(name, 0.0) > asyncio.get_running_loop().time():
            return home
        return home if await self._look(home, timeout_s) else home.fallback

    def forget_lease(self, home: Home) -> None:
        self._until.pop(self._entities.name(home), None)
        self._lonely.discard(self._entities.name(home))

    async def _look(self, home: Home, timeout_s: float) -> bool:
        """Look once for all who want to know at the same time."""
        name = self._entities.name(home)
        task = self._looking.get(name)
        if task is None:
            task = asyncio.create_task(self._renew(home, timeout_s), name=f"look at {name}")
            self._looking[name] = task
            task.add_done_callback(partial(self._looked, name))
        return await asyncio.shield(task)

    def _looked(self, name: str, task: asyncio.Task[bool]) -> None:
        del self._looking[name]
        if not task.cancelled():
            task.exception()  # whoever asked may have gone

    async def _renew(self, home: Home, timeout_s: float) -> bool:
        """Whether we have a lease now."""
        name = self._entities.name(home)
        now_s = asyncio.get_running_loop().time()
        n_consumers = await self._visit(name, timeout_s)
        if n_consumers is None:
            self.forget_lease(home)
            raise Unroutable(f"{home.name} was forgotten")
        if n_consumers == 0 and name in self._lonely:
            return False
        (self._lonely.discard if n_consumers else self._lonely.add)(name)
        self._until[name] = now_s + min(LEASE_GRACES * home.grace_s, home.expires_s / 2)
        return True

    async def _visit(self, name: str, timeout_s: float) -> int | None:
        """How many consumers it has; renews the life of one that was not known to have none."""

        async def look(channel: AbstractChannel) -> Queue.DeclareOk | None:
            return await inspect(channel, name)

        found = await self._link.call(look, timeout_s=timeout_s, only_looks=True)
        if found is None or found.consumer_count or name in self._lonely:
            return None if found is None else found.consumer_count
        return await self._ask(name, timeout_s)

    async def _ask(self, name: str, timeout_s: float) -> int | None:
        condition = await ask(self._link, name, timeout_s=timeout_s)
        if condition is Condition.MUTE:
            self._lonely.add(name)
        if condition is Condition.GONE:
            await remove(self._link, name, condition)
        return 0 if condition in (Condition.WHOLE, Condition.MUTE) else None
