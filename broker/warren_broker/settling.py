"""Settling: what happens to a message once its items were worked on.

Invariants: a message is acked after its last item is settled and never before; an item that is
handed back or given up is confirmed elsewhere before it counts as settled; where that fails, the
whole message goes back, and its settled items come again as duplicates.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Protocol

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import BrokerError
from warren_broker.port import Delivery, WorkBroker
from warren_broker.topology import Home, WorkQueue
from warren_schemas.codec.frame import WireError
from warren_schemas.envelope import Item
from warren_schemas.ids import new_message_id

EXIT_GRACE_S = 5.0
"""How long the last acks and hand-backs may take when an inbox is left."""

log = logging.getLogger(__name__)


class OpenMessage:
    """A delivery whose items are being worked on."""

    __slots__ = ("_must_return", "_n_open", "_settler", "delivery", "is_lone")

    def __init__(self, delivery: Delivery, n_items: int, settler: "Settler") -> None:
        self.delivery = delivery
        self._settler = settler
        self._n_open = n_items
        self.is_lone = n_items == 1
        self._must_return = False

    def settled(self) -> None:
        """One more item is safe."""
        self._n_open -= 1
        if self._n_open == 0:
            delivery = self.delivery
            self._settler.start(delivery.nack() if self._must_return else delivery.ack())

    def failed(self) -> None:
        """One item could not be brought to safety: the message must come again."""
        self._must_return = True
        self.settled()


class Settler(Protocol):
    """Where messages that are done with go; queues and logs differ in what they allow."""

    def start(self, settle: Coroutine[None, None, None]) -> None: ...
    def reject(self, delivery: Delivery, reason: str) -> None:
        """Nothing of this message can be used."""
        ...

    def give_up(self, message: OpenMessage, body: bytes, reason: str) -> None:
        """One item of this message can't be used; `body` is it alone."""
        ...

    def hand_back(self, message: OpenMessage, item: Item, delay_s: float) -> None: ...
    async def close(self) -> None: ...


class _Tasks:
    """Background tasks that somebody owns and waits for."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, settle: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(settle, name="settle")
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Wait for all, but not for ever: what is not acked by then comes again."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=EXIT_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a message could not be settled and will come again", exc_info=error)


class QueueSettler(_Tasks):
    """For queues and homes: back to the queue, or to `dead`."""

    def __init__(self, broker: WorkBroker, queue: WorkQueue | Home) -> None:
        super().__init__()
        self._broker = broker
        self._queue = queue
        self._batch_publisher = BatchPublisher(broker)
        self._delayed: set[asyncio.TimerHandle] = set()

    def reject(self, delivery: Delivery, reason: str) -> None:
        self.start(delivery.dead_letter(reason))

    def give_up(self, message: OpenMessage, body: bytes, reason: str) -> None:
        """A lone item goes with its message, which remembers when it began and how often it failed."""
        if message.is_lone:
            self.start(message.delivery.dead_letter(reason))
        else:
            self.start(self._give_up(message, body, reason))

    def hand_back(self, message: OpenMessage, item: Item, delay_s: float) -> None:
        if delay_s <= 0.0:
            self.start(self._hand_back(message, item))
            return

        def hand_back_now() -> None:
            self._delayed.discard(timer)
            self.start(self._hand_back(message, item))

        timer = asyncio.get_running_loop().call_later(delay_s, hand_back_now)
        self._delayed.add(timer)

    async def close(self) -> None:
        """Items that still wait for their delay go back with their message, at once."""
        for timer in self._delayed:
            timer.cancel()
        await super().close()

    async def _hand_back(self, message: OpenMessage, item: Item) -> None:
        try:
            await self._batch_publisher.send(self._queue, item)
        except (BrokerError, WireError) as error:
            log.warning("%s can't take an item back: %s", self._queue.name, error)
            message.failed()
        else:
            message.settled()

    async def _give_up(self, message: OpenMessage, body: bytes, reason: str) -> None:
        try:
            await self._broker.dead_letter(
                body, origin=self._queue, reason=reason, message_id=new_message_id()
            )
        except BrokerError as error:
            log.warning("an item of %s can't go to dead: %s", self._queue.name, error)
            message.failed()
        else:
            message.settled()


class StreamSettler(_Tasks):
    """For streams and topics: nothing goes back, and what is bad is passed over."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def reject(self, delivery: Delivery, reason: str) -> None:
        self._warn(delivery, reason)
        self.start(delivery.ack())

    def give_up(self, message: OpenMessage, body: bytes, reason: str) -> None:
        self._warn(message.delivery, reason)
        message.settled()

    def hand_back(self, message: OpenMessage, item: Item, delay_s: float) -> None:
        raise TypeError(f"{self._name} is read, not worked on: it takes no item back")

    def _warn(self, delivery: Delivery, reason: str) -> None:
        where = "" if delivery.offset is None else f" at offset {delivery.offset}"
        log.warning("passed over in %s%s (%s): %s", self._name, where, delivery.message_id, reason)
