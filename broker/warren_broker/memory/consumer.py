"""Consumers of queues and homes in memory.

Invariants: what was handed out is held until it is settled or the consumer leaves; on leaving it
goes back to the queue; a delivery that was settled, or whose consumer left, can't be settled again.
"""

from collections import deque

from warren_broker.memory.work_queue import GiveUp, Message, Queue
from warren_broker.waiting_consumer import WaitingConsumer


class QueueDelivery:
    """A message in somebody's hands."""

    __slots__ = ("_consumer", "message", "n_deliveries")

    def __init__(self, message: Message, consumer: "QueueConsumer") -> None:
        message.n_deliveries += 1
        self.message = message
        self.n_deliveries = message.n_deliveries
        self._consumer = consumer

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def message_id(self) -> str:
        return self.message.id

    @property
    def offset(self) -> int | None:
        return None

    async def ack(self) -> None:
        self._consumer.ack(self)

    async def nack(self, *, delay_s: float = 0.0) -> None:
        self._consumer.nack(self, delay_s)

    async def dead_letter(self, reason: str) -> None:
        self._consumer.dead_letter(self, reason)


class QueueConsumer(WaitingConsumer):
    """One consumer of one queue."""

    def __init__(self, queue: Queue, prefetch: int, give_up: GiveUp) -> None:
        super().__init__()
        self._queue = queue
        self._prefetch = prefetch
        self._give_up = give_up
        self._box: deque[Message] = deque()
        self._held: dict[QueueDelivery, None] = {}
        queue.attach(self)

    @property
    def has_credit(self) -> bool:
        return len(self._box) + len(self._held) < self._prefetch and not self._is_ended

    def push(self, message: Message) -> None:
        self._box.append(message)
        self._wake()

    async def stop(self) -> None:
        self.end()

    def end(self, error: Exception | None = None) -> None:
        super().end(error)
        self._queue.pass_over(self)
        while self._box:
            self._queue.give_back(self._box.pop())

    def leave_source(self, error: Exception | None = None) -> None:
        """End, and give back what is held."""
        self.end(error)
        held, self._held = list(self._held), {}
        for delivery in reversed(held):
            self._queue.give_back(delivery.message)
        self._queue.detach(self)

    def ack(self, delivery: QueueDelivery) -> None:
        if self._let_go(delivery):
            self._queue.feed(self)

    def nack(self, delivery: QueueDelivery, delay_s: float) -> None:
        if self._let_go(delivery):
            self._queue.give_back(delivery.message, delay_s)
            self._queue.feed(self)

    def dead_letter(self, delivery: QueueDelivery, reason: str) -> None:
        if self._let_go(delivery):
            self._give_up(delivery.message, self._queue.origin, reason)
            self._queue.feed(self)

    def _let_go(self, delivery: QueueDelivery) -> bool:
        if delivery not in self._held:
            return False
        del self._held[delivery]
        return True

    def _take(self) -> QueueDelivery | None:
        if not self._box:
            return None
        delivery = QueueDelivery(self._box.popleft(), self)
        self._held[delivery] = None
        return delivery
