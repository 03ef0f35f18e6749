"""One part's handle on the in-process broker.

Invariants: what a client holds goes back when it closes, and only that; calls that wait are ended by
`BrokerClosed`; a part that publishes without end still lets the event loop run.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from typing import TypeVar

from warren_broker.dead_letter_scan import look_at_each
from warren_broker.errors import BrokerClosed, BrokerUnavailable
from warren_broker.memory.consumer import QueueConsumer
from warren_broker.memory.queues import Queues
from warren_broker.memory.reader import Reader
from warren_broker.memory.streams import Streams
from warren_broker.memory.topics import Subscriber, Topics
from warren_broker.memory.work_queue import Message
from warren_broker.port import DeadLetter, SeenT, StreamStart
from warren_broker.topic_event import TopicEvent
from warren_broker.topology import Address, Home, Stream, Topic, WorkQueue

N_IN_A_ROW = 64
"""Publishes without a pause before the event loop gets its turn."""

ConsumerT = TypeVar("ConsumerT", QueueConsumer, Reader, Subscriber)


class MemoryBroker:
    """`port.Broker` in one process. Made by `MemoryHub.client` and `open_memory`.

    `on_closed` is told that this client holds nothing any more.
    """

    description = "in-process"
    is_durable = False

    def __init__(
        self,
        name: str,
        queues: Queues,
        streams: Streams,
        topics: Topics,
        *,
        on_closed: Callable[["MemoryBroker"], None],
    ) -> None:
        self.name = name
        self._queues = queues
        self._streams = streams
        self._topics = topics
        self._on_closed = on_closed
        self._consumers: dict[QueueConsumer | Reader | Subscriber, None] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._n_in_a_row = 0
        self._is_closed = False

    async def declare(self, *addresses: Address) -> None:
        self._check_open()
        for address in addresses:
            if isinstance(address, Stream):
                await self._streams.declare(address)
            elif not isinstance(address, Topic):
                self._queues.declare(address)

    async def delete(self, *addresses: Address) -> None:
        self._check_open()
        for address in addresses:
            if isinstance(address, Stream):
                await self._streams.delete(address.name)
            elif not isinstance(address, Topic):
                self._queues.delete(address.name)

    def stop_declaring(self, *addresses: Address) -> None:
        """Nothing is ever declared again here."""

    async def tidy(self) -> None:
        """Nothing breaks here."""

    async def publish(
        self, address: Address, body: bytes, *, message_id: str, timeout_s: float = 90.0
    ) -> None:
        self._check_open()
        if isinstance(address, Topic):
            self._topics.publish(address.name, TopicEvent(body, message_id))
            confirmed = None
        elif isinstance(address, Stream):
            confirmed = self._streams.append(address.name, message_id, body)
        else:
            message = Message(message_id, body, time.time())
            confirmed = self._queues.offer(address.name, message)
        if confirmed is None:
            await self._let_others_run()
        else:
            await self._wait(confirmed, address, timeout_s)

    @asynccontextmanager
    async def consume(
        self, queue: WorkQueue | Home, *, prefetch: int
    ) -> AsyncGenerator[QueueConsumer]:
        self._check_open()
        consumer = QueueConsumer(self._queues.declare(queue), prefetch, self._queues.give_up)
        async with self._owned(consumer):
            yield consumer

    @asynccontextmanager
    async def read(
        self, stream: Stream, *, start: StreamStart, prefetch: int = 200, aside: bool = False
    ) -> AsyncGenerator[Reader]:
        self._check_open()
        log = await self._streams.declare(stream)
        cursor = await self._streams.locate(log, start)
        async with self._owned(Reader(self._streams, log, cursor, prefetch)) as reader:
            yield reader

    @asynccontextmanager
    async def subscribe(self, topic: Topic) -> AsyncGenerator[Subscriber]:
        self._check_open()
        async with self._owned(Subscriber(self._topics, topic.name)) as subscriber:
            yield subscriber

    async def depth(self, queue: WorkQueue | Home) -> int | None:
        self._check_open()
        found = self._queues.find(queue.name)
        return None if found is None else len(found.ready)

    async def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        self._check_open()
        return self._queues.dead_letters(limit)

    async def look_at_dead_letters(
        self, look: Callable[[DeadLetter], SeenT | None], *, limit: int, max_bytes: int
    ) -> list[SeenT]:
        self._check_open()

        async def letters() -> AsyncGenerator[DeadLetter]:
            for letter in self._queues.dead_letters(limit):  # their bodies are here anyway
                yield letter

        return await look_at_each(letters(), look, max_bytes)

    async def dead_letter(
        self, body: bytes, *, origin: WorkQueue | Home, reason: str, message_id: str
    ) -> None:
        self._check_open()
        name = origin.fallback.name if isinstance(origin, Home) else origin.name
        self._queues.give_up(Message(message_id, body, time.time()), name, reason)

    async def requeue_dead_letter(self, letter_id: str) -> bool:
        self._check_open()
        return self._queues.requeue(letter_id)

    async def drop_dead_letters(self, letter_ids: Collection[str]) -> int:
        self._check_open()
        return self._queues.drop_letters(letter_ids)

    async def drop_dead_letter(self, letter_id: str) -> bool:
        self._check_open()
        return self._queues.drop_letters({letter_id}) > 0

    async def close(self) -> None:
        self.hand_back()

    def hand_back(self) -> None:
        """Hand back what is held, and end every call that waits."""
        self._is_closed = True
        self._on_closed(self)
        for consumer in list(self._consumers):
            consumer.leave_source(self._closed())
        for future in self._waiting:
            if not future.done():
                future.set_exception(self._closed())

    @asynccontextmanager
    async def _owned(self, consumer: ConsumerT) -> AsyncGenerator[ConsumerT]:
        self._consumers[consumer] = None
        try:
            yield consumer
        finally:
            consumer.leave_source()
            del self._consumers[consumer]

    async def _wait(
        self, confirmed: asyncio.Future[None], address: Address, timeout_s: float
    ) -> None:
        self._n_in_a_row = 0
        self._waiting.add(confirmed)
        try:
            async with asyncio.timeout(timeout_s):
                await confirmed
        except TimeoutError as error:
            raise BrokerUnavailable(
                f"{address.name} took no message within {timeout_s:g} s"
            ) from error
        finally:
            self._waiting.discard(confirmed)

    async def _let_others_run(self) -> None:
        self._n_in_a_row += 1
        if self._n_in_a_row > N_IN_A_ROW:
            self._n_in_a_row = 0
            await asyncio.sleep(0)

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._closed()

    def _closed(self) -> BrokerClosed:
        return BrokerClosed(f"the broker client of {self.name} was closed")
