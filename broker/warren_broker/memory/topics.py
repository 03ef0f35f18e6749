"""Topics in memory: fan-out to whoever listens at the moment.

A listener that falls behind loses the oldest events it has not seen; it never holds anybody up.
"""

import logging
from collections import defaultdict, deque
from dataclasses import dataclass

from warren_broker.errors import BrokerError
from warren_broker.waiting_consumer import Mailbox

MAX_UNSEEN = 1000
"""Events that are kept for one listener."""

log = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True, eq=False)
class Event:
    """A delivery that nobody waits for: settling it means nothing."""

    body: bytes
    message_id: str

    @property
    def n_deliveries(self) -> int:
        return 1

    @property
    def offset(self) -> int | None:
        return None

    async def ack(self) -> None:
        """Nothing to do: an event is gone once it was handed out."""

    async def nack(self, *, delay_s: float = 0.0) -> None:
        raise BrokerError("an event can't be handed back: nothing keeps it")

    async def dead_letter(self, reason: str) -> None:
        raise BrokerError("an event can't be given up: nothing keeps it")


class Subscriber(Mailbox):
    def __init__(self, topics: "Topics", name: str) -> None:
        super().__init__()
        self._topics = topics
        self._name = name
        self._events: deque[Event] = deque()
        topics.join(name, self)

    def push(self, event: Event) -> None:
        if len(self._events) == MAX_UNSEEN:
            self._events.popleft()
            log.debug("a listener to %s is behind and misses an event", self._name)
        self._events.append(event)
        self._wake()

    async def stop(self) -> None:
        self.leave()

    def leave(self, error: Exception | None = None) -> None:
        self.end(error)
        self._topics.part(self._name, self)

    def _take(self) -> Event | None:
        return self._events.popleft() if self._events else None


class Topics:
    """Who listens to what."""

    def __init__(self) -> None:
        self._subscribers: defaultdict[str, dict[Subscriber, None]] = defaultdict(dict)

    def publish(self, name: str, event: Event) -> None:
        for subscriber in self._subscribers.get(name, ()):
            subscriber.push(event)

    def join(self, name: str, subscriber: Subscriber) -> None:
        self._subscribers[name][subscriber] = None

    def part(self, name: str, subscriber: Subscriber) -> None:
        listening = self._subscribers.get(name, {})
        listening.pop(subscriber, None)
        if not listening:
            self._subscribers.pop(name, None)
