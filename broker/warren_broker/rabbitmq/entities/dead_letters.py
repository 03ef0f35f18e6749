"""Looking after the queue `dead`.

Invariant: looking removes nothing. Dead letters are taken unacknowledged on a channel of their own and put
back, or go back when it closes; only sending one home, confirmed, takes it out.

A dead letter's origin is the routing key it arrived with: whoever gave it up left it as it was when the
message came to the queue.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection

from aio_pika.abc import AbstractChannel
from aiormq.abc import AbstractChannel as Frames
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from warren_broker.backoff import pauses
from warren_broker.looking import look_at_each
from warren_broker.port import DeadLetter, SeenT
from warren_broker.rabbitmq.connection.connection import CALL_S, Link
from warren_broker.rabbitmq.entities.declaring import inspect
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
PUT_BACK_S = 1.0


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
        """Each in turn: of its message nothing is kept but the number of its delivery."""

        async def run(channel: AbstractChannel) -> "list[SeenT]":
            frames = await channel.get_underlay_channel()
            n_taken, last_tag = 0, 0

            async def letters() -> AsyncGenerator[DeadLetter]:
                nonlocal n_taken, last_tag
                async for message in self._take(frames, limit):
                    n_taken, last_tag = n_taken + 1, message.delivery_tag or 0
                    yield self._letter(message)

            seen = await look_at_each(letters(), look, max_bytes)
            if n_taken:
                await self._put_back(channel, last_tag, n_taken)
            return seen

        async with self._one_at_a_time:
            return await self._link.call(run, attempt_s=CALL_S)

    async def requeue(self, letter_id: str) -> bool:
        """Raises `Unroutable` when its origin is gone."""
        return await self._take_out(letter_id, self._send_home)

    async def drop_letter(self, letter_id: str) -> bool:
        return await self._take_out(letter_id, _forget)

    async def drop_all(self, letter_ids: Collection[str]) -> int:
        async def run(channel: AbstractChannel) -> int:
            frames = await channel.get_underlay_channel()
            last_tag, n_kept, n_dropped = 0, 0, 0
            async for message in self._take(frames, DEAD.max_messages):
                if id_of(message) in letter_ids:
                    await frames.basic_ack(message.delivery_tag or 0)
                    n_dropped += 1
                else:
                    last_tag, n_kept = message.delivery_tag or 0, n_kept + 1
            if n_kept:
                await self._put_back(channel, last_tag, n_kept)
            return n_dropped

        async with self._one_at_a_time:
            return await self._link.call(run, attempt_s=CALL_S)

    async def _take_out(
        self, letter_id: str, settle: Callable[[DeliveredMessage], Awaitable[None]]
    ) -> bool:
        """Settle one dead letter and ack it; False when it is not there."""

        async def run(channel: AbstractChannel) -> bool:
            frames = await channel.get_underlay_channel()
            before, n_before, is_found = 0, 0, False
            async for message in self._take(frames, DEAD.max_messages):
                if is_found := id_of(message) == letter_id:
                    await settle(message)
                    await frames.basic_ack(message.delivery_tag or 0)
                    break
                before, n_before = message.delivery_tag or 0, n_before + 1
            if n_before:
                await self._put_back(channel, before, n_before)
            return is_found

        async with self._one_at_a_time:
            return await self._link.call(run, attempt_s=CALL_S)  # it may lie behind many others

    async def _take(self, frames: Frames, limit: int) -> AsyncGenerator[DeliveredMessage]:
        for _ in range(limit):
            message = await frames.basic_get(self._entities.name(DEAD))
            if isinstance(message.delivery, Basic.GetEmpty):
                return
            yield message

    async def _put_back(self, channel: AbstractChannel, last_tag: int, n_messages: int) -> None:
        """Put back what was only looked at, up to `last_tag`, and see it back: nobody counts too few.

        Closing the channel would do it too, some time later.
        """
        frames = await channel.get_underlay_channel()
        await frames.basic_nack(last_tag, multiple=True, requeue=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PUT_BACK_S):
                for pause_s in pauses(first_s=0.002):
                    if await self._n_waiting(channel) >= n_messages:
                        return
                    await asyncio.sleep(pause_s)

    async def _n_waiting(self, channel: AbstractChannel) -> int:
        found = await inspect(channel, self._entities.name(DEAD))
        return found.message_count or 0 if found else 0

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
