"""The broker port on RabbitMQ.

Two connections: the server blocks whoever publishes, by connection, when memory or disk run low, and
everything else must go on then, or the queues would never empty. A third, made when it is first needed, is
for readers of whom there may be many: a connection has 2,047 channels, and breaks when more are asked for.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from yarl import URL

from warren_broker.errors import (
    BrokerClosed,
    BrokerUnavailable,
    Unroutable,
)
from warren_broker.port import DeadLetter, SeenT, StreamStart
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.connection.lazy import LazyLink
from warren_broker.rabbitmq.connection.timings import Timings
from warren_broker.rabbitmq.connection.url import checked, named
from warren_broker.rabbitmq.consuming.ended import ended
from warren_broker.rabbitmq.consuming.home_consumer import HomeConsumer
from warren_broker.rabbitmq.consuming.queue_consumer import Place, QueueConsumer
from warren_broker.rabbitmq.consuming.stream_reader import StreamReader
from warren_broker.rabbitmq.consuming.topic_subscriber import TopicSubscriber
from warren_broker.rabbitmq.entities.dead_letters import DeadLetters
from warren_broker.rabbitmq.entities.declared_entities import DeclaredEntities
from warren_broker.rabbitmq.entities.durable_declaring import DurableDeclarer
from warren_broker.rabbitmq.entities.entities import REPAIR_VISITS, Entities, Entity
from warren_broker.rabbitmq.entities.home_leases import HomeLeases
from warren_broker.rabbitmq.entities.queue_repair import VISITED_AT_ONCE, QueueRepair
from warren_broker.rabbitmq.entities.republisher import Republisher
from warren_broker.rabbitmq.publishing.messages import OutgoingMessage, new_headers
from warren_broker.rabbitmq.publishing.publishers import Publishers
from warren_broker.rabbitmq.publishing.send_limits import SMALL, SendLimits
from warren_broker.topology import Address, Home, Stream, Topic, WorkQueue

HEARTBEAT_S = 60
OPEN_S = 10.0
ATTACH_S = 90.0

ConsumerT = TypeVar("ConsumerT", QueueConsumer, StreamReader, TopicSubscriber)

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_rabbitmq(
    url: str,
    *,
    name: str = "warren",
    prefix: str = "warren.",
    heartbeat_s: int = HEARTBEAT_S,
    open_s: float = OPEN_S,
    timings: Timings | None = None,
) -> AsyncGenerator["RabbitBroker"]:
    """The RabbitMQ server at `url`, for the part of the system called `name`.

    Every name at the server starts with `prefix`. A heartbeat must be longer than any pause of the
    event loop.
    Raises `BrokerUnavailable` when there is no connection within `open_s`, `InvalidBrokerUrl`.
    """
    address = checked(url, heartbeat_s)
    broker = RabbitBroker(address, name, prefix, timings or Timings())
    try:
        await broker.start(open_s)
        yield broker
    finally:
        await broker.close()


class RabbitBroker:
    """`port.Broker` on RabbitMQ. Made by `open_rabbitmq`."""

    is_durable = True

    def __init__(self, url: URL, name: str, prefix: str, timings: Timings) -> None:
        self.description = f"RabbitMQ at {url.host}:{url.port}"
        self._name = name
        self._entities = Entities(prefix)
        sending, receiving, following = (
            Link(named(url, f"{name} {does}"), description=self.description, timings=timings)
            for does in ("publishes", "consumes", "follows")
        )
        self._sending, self._receiving = sending, receiving
        self._aside = LazyLink(following, timeout_s=ATTACH_S)
        self._declarer = DurableDeclarer(timings.durable_after_s)
        self._declared = DeclaredEntities(receiving, self._entities, self._declarer)
        self._publishers = Publishers(sending)
        exchanges = self._publishers.for_exchanges
        self._republisher = Republisher(exchanges, self._declared, self._entities)
        self._queue_repair = QueueRepair(self._receiving, self._republisher, self._entities)
        self._letters = DeadLetters(self._receiving, exchanges, self._entities)
        self._send_limits = SendLimits()
        self._leases = HomeLeases(self._receiving, self._entities)
        self._consumers: set[QueueConsumer | StreamReader | TopicSubscriber] = set()
        self._keeping_declared: asyncio.Task[None] | None = None
        self._is_closed = False

    async def start(self, timeout_s: float) -> None:
        """Connect, and declare what all else leans on. Raises `BrokerUnavailable`."""
        await self._sending.start(timeout_s=timeout_s)
        await self._receiving.start(timeout_s=timeout_s)
        await self._declared.ensure(self._entities.base())
        self._keeping_declared = asyncio.create_task(self._declared.keep(), name="declared")

    async def declare(self, *addresses: Address) -> None:
        self._check_open()
        await self._queue_repair.prepare(*addresses)
        await self._declared.declare(*addresses)

    async def delete(self, *addresses: Address) -> None:
        self._check_open()
        await self._declared.delete(*addresses)
        for address in addresses:
            self._forget_address(address)

    def stop_declaring(self, *addresses: Address) -> None:
        for address in addresses:
            self._declared.stop_declaring(address)
            self._forget_address(address)

    async def publish(
        self, address: Address, body: bytes, *, message_id: str, timeout_s: float = 90.0
    ) -> None:
        deadline = asyncio.get_running_loop().time() + timeout_s
        match address:
            case WorkQueue() if address.max_messages < SMALL:
                async with self._send_limits.enter(address, timeout_s=timeout_s):
                    await self._publish(address, body, message_id, deadline)
            case Home():
                await self._publish_home(address, body, message_id, deadline)
            case Topic():
                entities = self._entities.of(address)
                await self._declared.ensure_once(entities, timeout_s=timeout_s)
                await self._publish(address, body, message_id, deadline)
            case _:
                await self._publish(address, body, message_id, deadline)

    @asynccontextmanager
    async def consume(
        self, queue: WorkQueue | Home, *, prefetch: int
    ) -> AsyncGenerator[QueueConsumer]:
        place = Place.of(queue, self._entities)
        parts = (self._receiving, place, prefetch, self._republisher)
        await self._queue_repair.prepare(queue)
        if isinstance(queue, Home):
            consumer = HomeConsumer(*parts, partial(self._queue_repair.prepare, queue))
        else:
            consumer = QueueConsumer(*parts)
        await self._declare_durably(place.entities)
        async with self._attached(consumer):
            try:
                yield consumer
            finally:
                await consumer.hurry()

    @asynccontextmanager
    async def read(
        self, stream: Stream, *, start: StreamStart, prefetch: int = 200, aside: bool = False
    ) -> AsyncGenerator[StreamReader]:
        entity = self._entities.stream(stream)
        await self._declare_durably([entity])
        link = await self._aside.started() if aside else self._receiving
        async with self._attached(StreamReader(link, entity, start, prefetch)) as reader:
            yield reader

    @asynccontextmanager
    async def subscribe(self, topic: Topic) -> AsyncGenerator[TopicSubscriber]:
        subscriber = TopicSubscriber(self._receiving, self._entities, topic)
        async with self._attached(subscriber):
            yield subscriber

    async def depth(self, queue: WorkQueue | Home) -> int | None:
        self._check_open()
        found = await self._declared.measure(queue)
        return None if found is None else found.message_count

    async def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        self._check_open()
        return await self._letters.list(limit)

    async def look_at_dead_letters(
        self, look: Callable[[DeadLetter], SeenT | None], *, limit: int, max_bytes: int
    ) -> list[SeenT]:
        self._check_open()
        return await self._letters.look(look, limit, max_bytes)

    async def dead_letter(
        self, body: bytes, *, origin: WorkQueue | Home, reason: str, message_id: str
    ) -> None:
        self._check_open()
        queue = origin.fallback if isinstance(origin, Home) else origin
        name = self._entities.name(queue)
        headers = new_headers(message_id)
        await self._republisher.give_up(body, queue=name, reason=reason, headers=headers)

    async def requeue_dead_letter(self, letter_id: str) -> bool:
        self._check_open()
        return await self._letters.requeue(letter_id)

    async def drop_dead_letters(self, letter_ids: Collection[str]) -> int:
        self._check_open()
        return await self._letters.drop_all(letter_ids)

    async def drop_dead_letter(self, letter_id: str) -> bool:
        self._check_open()
        return await self._letters.drop_letter(letter_id)

    async def tidy(self) -> None:
        while True:
            async with self.consume(REPAIR_VISITS, prefetch=VISITED_AT_ONCE) as visits:
                await self._queue_repair.tidy(visits)

    async def close(self) -> None:
        """Takes a few seconds at most, whatever state the server is in."""
        self._is_closed = True
        for consumer in self._consumers:
            consumer.end(self._closed())
        if self._keeping_declared is not None:
            self._keeping_declared.cancel()
        await asyncio.gather(self._sending.close(), self._receiving.close(), self._aside.close())
        await self._publishers.close()

    @asynccontextmanager
    async def _attached(self, consumer: ConsumerT) -> AsyncGenerator[ConsumerT]:
        """The consumer, at work until the context is left."""
        self._check_open()
        self._consumers.add(consumer)
        task = asyncio.create_task(consumer.subscription.run(), name=f"consumer of {self._name}")
        task.add_done_callback(partial(ended, consumer))
        try:
            await self._until_attached(consumer)
            yield consumer
        finally:
            consumer.end()
            task.cancel()
            await asyncio.wait([task])
            self._consumers.discard(consumer)

    async def _declare_durably(self, entities: Sequence[Entity]) -> None:
        """For what is consumed: declared now and at every attach, but not kept declared."""
        self._check_open()
        await self._declarer.declare_durably(self._receiving, entities, timeout_s=ATTACH_S)

    async def _until_attached(self, consumer: ConsumerT) -> None:
        try:
            async with asyncio.timeout(ATTACH_S):
                await consumer.subscription.attached()
        except TimeoutError as error:
            raise BrokerUnavailable(f"{self.description} gave no consumer its place") from error

    async def _publish(
        self, address: Address, body: bytes, message_id: str, deadline: float
    ) -> None:
        self._check_open()
        name = self._entities.name(address)
        is_event = isinstance(address, Topic)
        outgoing = OutgoingMessage(
            exchange=name if is_event else "",
            routing_key="" if is_event else name,
            body=body,
            headers=new_headers(message_id),
            is_mandatory=not is_event,
            has_route_grace=not isinstance(address, Home),
        )
        publishers = self._publishers
        publisher = publishers.for_exchanges if is_event else publishers.to(name)
        await self._declarer.until_ready(name)
        await publisher.publish(outgoing, deadline=deadline)

    async def _publish_home(
        self, home: Home, body: bytes, message_id: str, deadline: float
    ) -> None:
        left_s = deadline - asyncio.get_running_loop().time()
        destination = await self._leases.destination(home, timeout_s=left_s)
        try:
            await self._publish(destination, body, message_id, deadline)
        except Unroutable:
            self._leases.forget_lease(home)
            raise

    def _forget_address(self, address: Address) -> None:
        self._publishers.retire_publisher(self._entities.name(address))
        if isinstance(address, Home):
            self._leases.forget_lease(address)

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._closed()

    def _closed(self) -> BrokerClosed:
        return BrokerClosed(f"the broker client of {self._name} was closed")
