"""Looking after the queue `dead`.

Invariant: looking removes nothing (`dead_letter_walk`); only sending one home, confirmed, and dropping it take one out.

A dead letter's origin is the routing key it arrived with: whoever gave it up left it as it was when the
message came to the queue.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from typing import TypeVar

from aio_pika.abc import AbstractChannel
from aiormq.abc import DeliveredMessage

from warren_broker.dead_letter_scan import look_at_each
from warren_broker.port import DeadLetter, SeenT
from warren_broker.rabbitmq.connection.connection import CALL_S, Link
from warren_broker.rabbitmq.entities.dead_letter_walk import Walk
from warren_broker.rabbitmq.entities.entities import UNLIMITED, Entities
from warren_broker.rabbitmq.publishing.messages import (
    REQUEUED,
    OutgoingMessage,
    id_of,
    kept_headers,
    n_requeued_of,
    published_s,
    reason_of,
    was_lettered,
)
from warren_broker.rabbitmq.publishing.publisher import Publisher
from warren_broker.topology import DEAD

REQUEUE_S = 6.0
"""How long a full queue may take until it accepts a dead letter."""

ResultT = TypeVar("ResultT")


class DeadLetters:
    def __init__(self, link: Link, publisher: Publisher, entities: Entities) -> None:
        self._link = link
        self._publisher = publisher
        self._entities = entities
        self._one_at_a_time = asyncio.Lock()

    async def list(self, limit: int) -> list[DeadLetter]:
        return await self.look(lambda letter: letter, limit, UNLIMITED)

    async def look(
        self, look: Callable[[DeadLetter], SeenT | None], limit: int, max_bytes: int
    ) -> "list[SeenT]":
        async def run(walk: Walk) -> "list[SeenT]":
            async with aclosing(walk.letters(limit)) as messages:
                letters = (self._letter(message) async for message in messages)
                return await look_at_each(letters, look, max_bytes)

        return await self._walk(run)

    async def requeue(self, letter_id: str) -> bool:
        """Raises `Unroutable` when its origin is gone."""
        return await self._take_out(letter_id, self._send_home)

    async def drop_letter(self, letter_id: str) -> bool:
        return await self._take_out(letter_id, _forget)

    async def drop_all(self, letter_ids: Collection[str]) -> int:
        async def run(walk: Walk) -> int:
            n_dropped = 0
            async with aclosing(walk.letters(DEAD.max_messages)) as messages:
                async for message in messages:
                    if id_of(message) in letter_ids:
                        await walk.take_out(message)
                        n_dropped += 1
            return n_dropped

        return await self._walk(run)

    async def _take_out(
        self, letter_id: str, settle: Callable[[DeliveredMessage], Awaitable[None]]
    ) -> bool:
        """Settle one dead letter and ack it; False when it is not there."""

        async def run(walk: Walk) -> bool:
            async with aclosing(walk.letters(DEAD.max_messages)) as messages:
                async for message in messages:
                    if id_of(message) == letter_id:
                        await settle(message)
                        await walk.take_out(message)
                        return True
            return False

        return await self._walk(run)

    async def _walk(self, look: Callable[[Walk], Awaitable[ResultT]]) -> ResultT:
        async def run(channel: AbstractChannel) -> ResultT:
            frames = await channel.get_underlay_channel()
            walk = Walk(channel, frames, self._entities.name(DEAD))
            result = await look(walk)
            await walk.put_back()
            return result

        async with self._one_at_a_time:
            return await self._link.call(run, attempt_s=CALL_S)  # there may be many

    async def _send_home(self, message: DeliveredMessage) -> None:
        outgoing = OutgoingMessage(
            exchange="",
            routing_key=message.routing_key or "",
            body=message.body,
            headers=kept_headers(message) | {REQUEUED: n_requeued_of(message) + 1},
            has_route_grace=False,
        )
        deadline = asyncio.get_running_loop().time() + REQUEUE_S
        await self._publisher.publish(outgoing, deadline=deadline)

    def _letter(self, message: DeliveredMessage) -> DeadLetter:
        return DeadLetter(
            id=id_of(message),
            origin=self._entities.origin(message.routing_key or ""),
            reason=reason_of(message) or _reason_of_server(message),
            first_seen_s=published_s(message) or time.time(),
            body=message.body,
            n_failures=n_requeued_of(message) + 1,
        )


async def _forget(_: DeliveredMessage) -> None:
    """Nothing to do before the dead letter is acked and gone."""


def _reason_of_server(message: DeliveredMessage) -> str:
    if was_lettered(message):
        return "its queue was gone when it should have come back"
    return "sent here by another client"
