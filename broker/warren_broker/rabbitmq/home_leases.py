"""Making sure that a home outlives what is published to it.

The server deletes a home that had no consumer for a while, and with it any message that came in the
last moments. So before publishing we hold a lease: we have seen, less than half of that while ago,
that the home has a consumer, or have renewed its life by trying to get a message from it (a look
alone does not count as use). What is published under a lease falls back long before the deletion.

Invariant: nothing is published to a home without a lease that covers its grace.
"""

import asyncio

from aio_pika.abc import AbstractChannel
from pamqp.commands import Basic

from warren_broker.errors import Unroutable
from warren_broker.rabbitmq.connection import Link
from warren_broker.rabbitmq.entities import FORGET_AFTER_GRACES, Entities
from warren_broker.rabbitmq.topology import inspect
from warren_broker.topology import Home


class HomeLeases:
    def __init__(self, link: Link, entities: Entities) -> None:
        self._link = link
        self._entities = entities
        self._until: dict[str, float] = {}
        """On the event loop's clock, by the name at the server."""
        self._looking: dict[str, asyncio.Task[bool]] = {}

    async def hold(self, home: Home, *, timeout_s: float) -> None:
        """Return with a lease. Raises `Unroutable` when there is no such home."""
        name = self._entities.name(home)
        now_s = asyncio.get_running_loop().time()
        if self._until.get(name, 0.0) > now_s:
            return
        if not await self._look(name, timeout_s):
            self._until.pop(name, None)
            raise Unroutable(f"{home.name} is gone")
        self._until[name] = now_s + home.grace_s * FORGET_AFTER_GRACES / 2

    def forget(self, home: Home) -> None:
        self._until.pop(self._entities.name(home), None)

    async def _look(self, name: str, timeout_s: float) -> bool:
        """Look once for all who want to know at the same time."""
        task = self._looking.get(name)
        if task is None:
            task = asyncio.create_task(self._renew(name, timeout_s), name=f"look at {name}")
            self._looking[name] = task
            task.add_done_callback(lambda _: self._looking.pop(name, None))
        return await asyncio.shield(task)

    async def _renew(self, name: str, timeout_s: float) -> bool:
        async def run(channel: AbstractChannel) -> bool:
            found = await inspect(channel, name)
            if found is None:
                return False
            if not found.consumer_count:
                frames = await channel.get_underlay_channel()
                message = await frames.basic_get(name)
                if isinstance(message.delivery, Basic.GetOk):
                    await frames.basic_nack(message.delivery_tag or 0, requeue=True)
            return True

        return await self._link.call(run, timeout_s=timeout_s)
