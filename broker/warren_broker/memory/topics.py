"""Topics in memory: fan-out to whoever listens at the moment.

A listener that falls behind loses the oldest events it has not seen; it never holds anybody up.
"""

import logging
from collections import defaultdict, deque

from warren_broker.topic_event import MAX_UNSEEN, TopicEvent
from warren_broker.waiting_consumer import WaitingConsumer

log = logging.getLogger(__name__)


class Subscriber(WaitingConsumer):
    def __init__(self, topics: "Topics", name: str) -> None:
        super().__init__()
        self._topics = topics
        self._name = name
        self._events: deque[TopicEvent] = deque()
        topics.join(name, self)

    def push(self, event: TopicEvent) -> None:
        if len(self._events) == MAX_UNSEEN:
            self._events.popleft()
            log.debug("a listener to %s is behind and misses an event", self._name)
        self._events.append(event)
        self._wake()

    async def stop(self) -> None:
        self.leave_source()

    def leave_source(self, error: Exception | None = None) -> None:
        self.end(error)
        self._topics.part(self._name, self)

    def _take(self) -> TopicEvent | None:
        return self._events.popleft() if self._events else None


class Topics:
    """Who listens to what."""

    def __init__(self) -> None:
        self._subscribers: defaultdict[str, dict[Subscriber, None]] = defaultdict(dict)

    def publish(self, name: str, event: TopicEvent) -> None:
        for subscriber in self._subscribers.get(name, ()):
            subscriber.push(event)

    def join(self, name: str, subscriber: Subscriber) -> None:
        self._subscribers[name][subscriber] = None

    def part(self, name: str, subscriber: Subscriber) -> None:
        listening = self._subscribers.get(name, {})
        listening.pop(subscriber, None)
        if not listening:
            self._subscribers.pop(name, None)
