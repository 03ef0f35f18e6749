"""Queues and homes in memory.

Invariants: a message is in exactly one place: ready, delayed, waiting while the queue is full, or with one
consumer; only an ack, a deletion or the move to `dead` takes it out. Handing back never waits, so
a full queue can hold publishers back but never a consumer.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from warren_broker.errors import Unroutable
from warren_broker.topology import DELIVERY_LIMIT, Home


@dataclass(slots=True, eq=False)
class Message:
    id: str
    body: bytes
    published_s: float
    n_deliveries: int = 0
    n_requeued: int = 0
    """How often it was sent home from `dead`."""
    origin: str = ""
    """Where it can go back to; set only in `dead`, as is the reason."""
    reason: str = ""


GiveUp = Callable[[Message, str, str], None]
"""Move a message to `dead`: the message, its origin, the reason."""


class QueueConsumer(Protocol):
    """What a queue knows of a consumer."""

    @property
    def has_credit(self) -> bool: ...
    def push(self, message: Message) -> None: ...
    def end(self, error: Exception | None = None) -> None: ...


class Queue:
    """First in, first out, to the consumers that have credit, in turns."""

    def __init__(self, name: str, max_messages: int, give_up: GiveUp) -> None:
        self.name = name
        self.max_messages = max_messages
        self.ready: deque[Message] = deque()
        self._give_up = give_up
        self._takers: list[QueueConsumer] = []
        self._hungry: deque[QueueConsumer] = deque()
        self._delayed: dict[Message, asyncio.TimerHandle] = {}
        self._crowd: OrderedDict[asyncio.Future[None], Message] = OrderedDict()
        self.is_deleted = False

    @property
    def origin(self) -> str:
        """The name under which a dead letter goes back."""
        return self.name

    def offer(self, message: Message) -> asyncio.Future[None] | None:
        """Take the message now (None), or when the queue is no longer full (done then)."""
        if len(self.ready) < self.max_messages:
            self.put(message)
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._crowd[future] = message
        future.add_done_callback(self._leave_crowd)  # also of who gives up
        return future

    def put(self, message: Message) -> None:
        """Take the message, full or not."""
        if self._hungry:
            self._feed(message)
        else:
            self.ready.append(message)

    def give_back(self, message: Message, delay_s: float = 0.0) -> None:
        """A consumer returns what it did not ack."""
        if message.n_deliveries >= DELIVERY_LIMIT:
            reason = f"handed out {message.n_deliveries} times without an acknowledgement"
            self._give_up(message, self.origin, reason)
        elif delay_s > 0.0:
            loop = asyncio.get_running_loop()
            self._delayed[message] = loop.call_later(delay_s, self._delay_is_over, message)
        elif self._hungry:
            self._feed(message)
        else:
            self.ready.appendleft(message)

    def attach(self, taker: QueueConsumer) -> None:
        self._takers.append(taker)
        self.feed(taker)

    def detach(self, taker: QueueConsumer) -> None:
        """Forget a consumer; it has given back what it held."""
        if taker in self._takers:
            self._takers.remove(taker)
        self.pass_over(taker)

    def pass_over(self, taker: QueueConsumer) -> None:
        """Hand nothing more to this consumer."""
        if taker in self._hungry:
            self._hungry.remove(taker)

    def feed(self, taker: QueueConsumer) -> None:
        """A consumer has credit: fill it, and remember it where there was not enough."""
        while self.ready and taker.has_credit:
            taker.push(self._pop())
        if taker.has_credit and taker not in self._hungry:
            self._hungry.append(taker)

    def remove(self, message: Message) -> None:
        """Take out a waiting message."""
        self.ready.remove(message)
        self._let_in()

    def remove_where(self, is_unwanted: Callable[[Message], bool]) -> int:
        """Take out waiting messages, in one pass; how many."""
        kept = [message for message in self.ready if not is_unwanted(message)]
        n_removed = len(self.ready) - len(kept)
        self.ready = deque(kept)
        self._let_in()
        return n_removed

    def drop_oldest(self) -> Message:
        return self._pop()

    def delete(self) -> None:
        """The queue is deleted: its consumers end, its messages go with it."""
        self.is_deleted = True
        for future, message in self._crowd.items():
            if not future.done():
                future.set_exception(Unroutable(f"{self.name} was deleted; {message.id} not sent"))
        for taker in list(self._takers):
            taker.end()
        for _ in self.drain():
            pass

    def drain(self) -> Iterator[Message]:
        """Every message that no consumer holds, taken out."""
        for handle in self._delayed.values():
            handle.cancel()
        while self.ready:
            yield self.ready.popleft()
        yield from self._delayed
        self._delayed.clear()
        while self._crowd:
            future, message = self._crowd.popitem(last=False)
            if not future.done():
                future.set_result(None)
                yield message

    def _feed(self, message: Message) -> None:
        taker = self._hungry[0]
        taker.push(message)
        if taker.has_credit:
            self._hungry.rotate(-1)
        else:
            self._hungry.popleft()

    def _pop(self) -> Message:
        message = self.ready.popleft()
        if self._crowd:
            self._let_in()
        return message

    def _let_in(self) -> None:
        while self._crowd and len(self.ready) < self.max_messages:
            future, message = self._crowd.popitem(last=False)
            if not future.done():
                future.set_result(None)
                self.ready.append(message)

    def _leave_crowd(self, future: "asyncio.Future[None]") -> None:
        self._crowd.pop(future, None)

    def _delay_is_over(self, message: Message) -> None:
        del self._delayed[message]
        self.put(message)


class ExpiringQueue(Queue):
    """A queue that goes, as `expire` says, when it had no consumer for `expires_s`."""

    def __init__(
        self,
        name: str,
        max_messages: int,
        give_up: GiveUp,
        *,
        expires_s: float,
        expire: Callable[[], None],
    ) -> None:
        super().__init__(name, max_messages, give_up)
        self._expires_s = expires_s
        self._expire = expire
        self._timer = self._start_timer()

    def attach(self, taker: QueueConsumer) -> None:
        self._timer.cancel()
        super().attach(taker)

    def detach(self, taker: QueueConsumer) -> None:
        super().detach(taker)
        if not self._takers and not self.is_deleted:
            self._timer.cancel()
            self._timer = self._start_timer()

    def drain(self) -> Iterator[Message]:
        self._timer.cancel()
        yield from super().drain()

    def _start_timer(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._expires_s, self._expire)


class HomeQueue(ExpiringQueue):
    """A queue that moves in with its fallback when no consumer came for `grace_s`."""

    def __init__(
        self, address: Home, give_up: GiveUp, *, fall_back: "Callable[[HomeQueue], None]"
    ) -> None:
        super().__init__(
            address.name,
            address.max_messages,
            give_up,
            expires_s=address.grace_s,
            expire=partial(fall_back, self),
        )
        self.address = address

    @property
    def origin(self) -> str:
        return self.address.fallback.name
