"""A broker that tells what was asked of it: everything goes on to a real one."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from warren_broker.port import Broker, Consumer, DeadLetter, SeenT, StreamStart
from warren_broker.topology import Address, Home, Stream, Topic, WorkQueue


class ObservedBroker:
    """`declared` is set once somebody has declared something, `has_left` once a reader of a stream has left it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.declared = asyncio.Event()
        self.has_left = asyncio.Event()
        self.n_readers = 0
        """Of streams, since the start."""

    @property
    def description(self) -> str:
        return self._broker.description

    @property
    def is_durable(self) -> bool:
        return self._broker.is_durable

    async def declare(self, *addresses: Address) -> None:
        await self._broker.declare(*addresses)
        self.declared.set()

    async def delete(self, *addresses: Address) -> None:
        await self._broker.delete(*addresses)

    def stop_declaring(self, *addresses: Address) -> None:
        self._broker.stop_declaring(*addresses)

    async def tidy(self) -> None:
        await self._broker.tidy()

    async def publish(
        self, address: Address, body: bytes, *, message_id: str, timeout_s: float = 90.0
    ) -> None:
        await self._broker.publish(address, body, message_id=message_id, timeout_s=timeout_s)

    def consume(
        self, queue: WorkQueue | Home, *, prefetch: int
    ) -> AbstractAsyncContextManager[Consumer]:
        return self._broker.consume(queue, prefetch=prefetch)

    def subscribe(self, topic: Topic) -> AbstractAsyncContextManager[Consumer]:
        return self._broker.subscribe(topic)

    @asynccontextmanager
    async def read(
        self, stream: Stream, *, start: StreamStart, prefetch: int = 200, aside: bool = False
    ) -> AsyncGenerator[Consumer]:
        self.n_readers += 1
        try:
            reading = self._broker.read(stream, start=start, prefetch=prefetch, aside=aside)
            async with reading as consumer:
                yield consumer
        finally:
            self.has_left.set()

    async def depth(self, queue: WorkQueue | Home) -> int | None:
        return await self._broker.depth(queue)

    async def dead_letter(
        self, body: bytes, *, origin: WorkQueue | Home, reason: str, message_id: str
    ) -> None:
        await self._broker.dead_letter(body, origin=origin, reason=reason, message_id=message_id)

    async def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        return await self._broker.dead_letters(limit=limit)

    async def look_at_dead_letters(
        self, look: Callable[[DeadLetter], SeenT | None], *, limit: int, max_bytes: int
    ) -> list[SeenT]:
        return await self._broker.look_at_dead_letters(look, limit=limit, max_bytes=max_bytes)

    async def requeue_dead_letter(self, letter_id: str) -> bool:
        return await self._broker.requeue_dead_letter(letter_id)

    async def drop_dead_letters(self, letter_ids: Collection[str]) -> int:
        return await self._broker.drop_dead_letters(letter_ids)

    async def drop_dead_letter(self, letter_id: str) -> bool:
        return await self._broker.drop_dead_letter(letter_id)

    async def close(self) -> None:
        await self._broker.close()
