"""Listeners to topics.

An event reaches whoever is attached; what comes while the connection is away is missed. A listener
that falls behind loses the oldest events it has not seen, and never holds anybody up.
"""

from collections import deque
from collections.abc import Callable
from uuid import uuid4

from aio_pika.abc import AbstractChannel
from aiormq.abc import AbstractChannel as Frames
from aiormq.abc import ArgumentsType, DeliveredMessage

from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.consuming.subscription import Subscription
from warren_broker.rabbitmq.entities.declare_calls import declare
from warren_broker.rabbitmq.entities.entities import Entities
from warren_broker.rabbitmq.publishing.messages import id_of
from warren_broker.topic_event import MAX_UNSEEN, TopicEvent
from warren_broker.topology import Topic
from warren_broker.waiting_consumer import WaitingConsumer


class TopicSubscriber(WaitingConsumer):
    """One listener to one topic, for one task."""

    prefetch = 0
    needs_no_ack = True
    outlives_queue = True

    def __init__(
        self,
        link: Link,
        entities: Entities,
        topic: Topic,
        *,
        new_name: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        """`new_name` names a queue as no other listener's is."""
        super().__init__()
        self._new_name = new_name
        self.subscription = Subscription(link, self)
        self._entities = entities
        self._topic = topic
        self._events: deque[TopicEvent] = deque(maxlen=MAX_UNSEEN)

    @property
    def arguments(self) -> ArgumentsType:
        return {}

    async def stop(self) -> None:
        await self.subscription.stop()
        self.end()

    async def attach(self, channel: AbstractChannel) -> str:
        # A new queue each time: the server may not know yet that the old connection is gone.
        queue = self._entities.listener(self._topic, self._new_name())
        for entity in (*self._entities.of(self._topic), queue):
            await declare(channel, entity)
        return queue.name

    def accept(self, frames: Frames, message: DeliveredMessage) -> None:
        self._events.append(TopicEvent(bytes(message.body), id_of(message)))
        self._wake()

    def detached(self) -> None:
        """What was heard was heard."""

    def _take(self) -> TopicEvent | None:
        return self._events.popleft() if self._events else None
