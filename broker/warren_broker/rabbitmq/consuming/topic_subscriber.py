"""Listeners to topics.

An event reaches whoever is attached; what comes while the connection is away is missed. A listener
that falls behind loses the oldest events it has not seen, and never holds anybody up.
"""

from collections import deque
from uuid import uuid4

from aio_pika.abc import AbstractChannel
from aiormq.abc import AbstractChannel as Frames
from aiormq.abc import ArgumentsType, DeliveredMessage

from warren_broker.errors import BrokerError
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.consuming.subscription import Subscription
from warren_broker.rabbitmq.entities.declaring import declare
from warren_broker.rabbitmq.entities.entities import MAX_UNSEEN_EVENTS, Entities
from warren_broker.rabbitmq.publishing.messages import id_of
from warren_broker.topology import Topic
from warren_broker.waiting_consumer import Mailbox


class Event:
    """A delivery that nobody waits for: settling it means nothing."""

    __slots__ = ("_message",)

    def __init__(self, message: DeliveredMessage) -> None:
        self._message = message

    @property
    def body(self) -> bytes:
        return self._message.body

    @property
    def message_id(self) -> str:
        return id_of(self._message)

    @property
    def n_deliveries(self) -> int:
        return 1

    @property
    def offset(self) -> int | None:
        return None

    async def ack(self) -> None:
        """Nothing to do: an event is gone once it was sent."""

    async def nack(self, *, delay_s: float = 0.0) -> None:
        raise BrokerError("an event can't be handed back: nothing keeps it")

    async def dead_letter(self, reason: str) -> None:
        raise BrokerError("an event can't be given up: nothing keeps it")


class TopicSubscriber(Mailbox):
    """One listener to one topic, for one task."""

    prefetch = 0
    needs_no_ack = True
    outlives_queue = True

    def __init__(self, link: Link, entities: Entities, topic: Topic) -> None:
        super().__init__()
        self.subscription = Subscription(link, self)
        self._entities = entities
        self._topic = topic
        self._events: deque[Event] = deque(maxlen=MAX_UNSEEN_EVENTS)

    @property
    def arguments(self) -> ArgumentsType:
        return {}

    async def stop(self) -> None:
        await self.subscription.stop()
        self.end()

    async def attach(self, channel: AbstractChannel) -> str:
        # A new queue each time: the server may not know yet that the old connection is gone.
        queue = self._entities.listener(self._topic, uuid4().hex)
        for entity in (*self._entities.of(self._topic), queue):
            await declare(channel, entity)
        return queue.name

    def accept(self, frames: Frames, message: DeliveredMessage) -> None:
        self._events.append(Event(message))
        self._wake()

    def detached(self) -> None:
        """What was heard was heard."""

    def _take(self) -> Event | None:
        return self._events.popleft() if self._events else None
