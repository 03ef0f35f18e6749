"""Consumers of work queues.

Invariants:
- What was not settled when the channel goes is the server's again; settling it later does nothing.
- Handing back with a delay, and giving up, publish the copy (confirmed) before they ack the original:
  if that fails the original goes back instead.
- A message carries the number of deliveries it had before it was published again, since the server
  starts to count anew; the delivery limit holds over all of them.
- A message that has been handed out as often as may be is given up unseen by whoever gets it next:
  the hands that never settled it may all be dead.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from aio_pika.abc import AbstractChannel
from aiormq.abc import AbstractChannel as Frames
from aiormq.abc import ArgumentsType, DeliveredMessage

from warren_broker.errors import BrokerError
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.connection.failures import settle
from warren_broker.rabbitmq.consuming.acks import Acks
from warren_broker.rabbitmq.consuming.subscription import Subscription
from warren_broker.rabbitmq.entities.declare_calls import declare
from warren_broker.rabbitmq.entities.entities import Entities, Entity
from warren_broker.rabbitmq.entities.republisher import Republisher
from warren_broker.rabbitmq.publishing.messages import ID, id_of, kept_headers, n_deliveries_of
from warren_broker.topology import DELIVERY_LIMIT, Home, WorkQueue
from warren_broker.waiting_consumer import WaitingConsumer

log = logging.getLogger(__name__)


class QueueDelivery:
    """A message in somebody's hands."""

    __slots__ = ("_consumer", "frames", "message", "n_deliveries")

    def __init__(
        self,
        frames: Frames,
        message: DeliveredMessage,
        consumer: "QueueConsumer",
        n_deliveries: int,
    ) -> None:
        self.frames = frames
        self.message = message
        self.n_deliveries = n_deliveries
        self._consumer = consumer

    @property
    def tag(self) -> int:
        """The number by which the channel knows it."""
        return self.message.delivery_tag or 0

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def message_id(self) -> str:
        return id_of(self.message)

    @property
    def offset(self) -> int | None:
        return None

    def again(self) -> "QueueDelivery":
        """The same message in other hands."""
        return QueueDelivery(self.frames, self.message, self._consumer, self.n_deliveries + 1)

    async def ack(self) -> None:
        await self._consumer.ack(self)

    async def nack(self, *, delay_s: float = 0.0) -> None:
        await self._consumer.nack(self, delay_s)

    async def dead_letter(self, reason: str) -> None:
        await self._consumer.dead_letter(self, reason)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a consumer takes from, in the server's names."""

    queue: str
    origin: str
    """Where a dead letter goes back to."""
    entities: Sequence[Entity]

    @classmethod
    def of(cls, queue: WorkQueue | Home, entities: Entities) -> Self:
        home = queue.fallback if isinstance(queue, Home) else queue
        return cls(entities.name(queue), entities.name(home), entities.of(queue))


class QueueConsumer(WaitingConsumer):
    """One consumer of one work queue, for one task."""

    needs_no_ack = False
    outlives_queue = False

    def __init__(self, link: Link, place: Place, prefetch: int, republisher: Republisher) -> None:
        super().__init__()
        self.prefetch = prefetch
        self._n_hands = prefetch
        self.subscription = Subscription(link, self)
        self._place = place
        self._republisher = republisher
        self._box: deque[QueueDelivery] = deque()
        self._held: set[QueueDelivery] = set()
        self._giving_up: set[asyncio.Task[None]] = set()
        self._acks: Acks | None = None

    @property
    def arguments(self) -> ArgumentsType:
        return {}

    async def stop(self) -> None:
        await self.subscription.stop()
        self.end()
        while self._box:
            await self._return(self._box.pop())
        await self.hurry()

    async def hurry(self) -> None:
        """Keep no ack waiting for others any more."""
        if self._acks is not None:
            await self._acks.hurry()

    async def attach(self, channel: AbstractChannel) -> str:
        for entity in self._place.entities:
            await declare(channel, entity)
        return self._place.queue

    def accept(self, frames: Frames, message: DeliveredMessage) -> None:
        if self._acks is None or self._acks.frames is not frames:
            self._acks = Acks(frames, max_waiting=self._n_hands // 4)
        delivery = QueueDelivery(frames, message, self, n_deliveries_of(message))
        self._acks.delivered(delivery.tag)
        if delivery.n_deliveries > DELIVERY_LIMIT:
            self._give_up(delivery)
            return
        self._box.append(delivery)
        self._wake()

    def detached(self) -> None:
        self._box.clear()

    async def ack(self, delivery: QueueDelivery) -> None:
        if self._let_go(delivery):
            self._ack(delivery)

    async def nack(self, delivery: QueueDelivery, delay_s: float) -> None:
        if not self._let_go(delivery):
            return
        if delivery.n_deliveries >= DELIVERY_LIMIT:
            await self._move_to_dead(delivery, out_of_deliveries(delivery.n_deliveries))
        else:
            await self._hand_back(delivery, delay_s)

    async def dead_letter(self, delivery: QueueDelivery, reason: str) -> None:
        if self._let_go(delivery):
            await self._move_to_dead(delivery, reason)

    def _take(self) -> QueueDelivery | None:
        if not self._box:
            return None
        delivery = self._box.popleft()
        self._held.add(delivery)
        return delivery

    def _let_go(self, delivery: QueueDelivery) -> bool:
        """Whether it is still ours to settle; once only."""
        if delivery not in self._held:
            return False
        self._held.discard(delivery)
        return not delivery.frames.is_closed

    def _give_up(self, delivery: QueueDelivery) -> None:
        reason = out_of_deliveries(delivery.n_deliveries - 1)
        task = asyncio.create_task(self._move_to_dead(delivery, reason), name="give a message up")
        self._giving_up.add(task)
        task.add_done_callback(self._giving_up.discard)

    async def _hand_back(self, delivery: QueueDelivery, delay_s: float) -> None:
        if delay_s <= 0.0:
            return await self._return(delivery)
        try:
            await self._republisher.retry(
                delivery.message,
                queue=self._place.queue,
                n_deliveries=delivery.n_deliveries,
                delay_s=delay_s,
            )
        except BrokerError as error:
            log.warning("%s goes back without a delay: %s", delivery.message_id, error)
            await self._return(delivery)
        else:
            self._ack(delivery)

    async def _move_to_dead(self, delivery: QueueDelivery, reason: str) -> None:
        log.warning(
            "%s of %s goes to dead: %.500s", delivery.message_id, self._place.origin, reason
        )
        headers = kept_headers(delivery.message) | {ID: delivery.message_id}
        try:
            await self._republisher.give_up(
                delivery.body, queue=self._place.origin, reason=reason, headers=headers
            )
        except BrokerError as error:
            log.warning("%s goes back instead: %s", delivery.message_id, error)
            await self._return(delivery)
        else:
            self._ack(delivery)

    def _ack(self, delivery: QueueDelivery) -> None:
        if self._acks is not None and self._acks.frames is delivery.frames:
            self._acks.add(delivery.tag)

    async def _return(self, delivery: QueueDelivery) -> None:
        await settle(delivery.frames.basic_nack(delivery.tag, requeue=True, wait=False))
        if self._acks is not None and self._acks.frames is delivery.frames:
            self._acks.returned(delivery.tag)


def out_of_deliveries(n_deliveries: int) -> str:
    return f"handed out {n_deliveries} times without an acknowledgement"
