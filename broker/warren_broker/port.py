"""The broker port: all that Warren relies on, and nothing that only one broker can do.

Promises that every implementation keeps (`tests/contract/test_broker.py` holds them):

- `publish` returns when the broker has the message and will not lose it (confirm). A publish that
  raises `BrokerUnavailable` may have been stored all the same: consumers see duplicates, never gaps.
- A message stays with its queue until it is acked. A consumer that goes away, in good order or not,
  hands back what it did not ack; `n_deliveries` counts how often the message was handed out.
- A message handed out more than `topology.DELIVERY_LIMIT` times goes to `dead` with the reason.
- At most `prefetch` messages of a consumer are unacknowledged, `MAX_PREFETCH` at most.
- A stream reader sees each offset once and in order, also across a lost connection; ack only gives
  back credit. Streams can't nack.
- Events reach whoever is subscribed; they are never stored.
- A lost connection heals by itself; callers wait, and fail only at their deadline.
- `consume` and `read` declare what they take from; only publishing needs a `declare` before it.

Left open on purpose: the position of a message that was handed back, order across consumers.
"""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from warren_broker.topology import Address, Home, Stream, Topic, WorkQueue

MAX_PREFETCH = 65_535
"""Of one consumer; RabbitMQ counts them in 16 bits."""
MAX_REASON_CHARS = 2000
"""Of the reason of a dead letter; what is longer is cut off. RabbitMQ takes no long headers."""


SeenT = TypeVar("SeenT")


@dataclass(frozen=True, slots=True)
class FromTime:
    """Start at the first message that was appended at or after this Unix time."""

    unix_s: float


StreamStart = int | FromTime | Literal["first", "next"]
"""An offset, a time, the oldest message kept, or only what comes from now on."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was given up: where it came from, why, and since when."""

    id: str
    origin: str
    """Name of the queue that it goes back to; of a home, its fallback, which outlives it."""
    reason: str
    first_seen_s: float
    """Unix time of its first publishing."""
    body: bytes
    n_failures: int = 1
    """How often it came here; more than once when it was sent home and failed again."""


class Delivery(Protocol):
    """One message in a consumer's hands. Exactly one of ack, nack, dead_letter settles it.

    Settling never raises for a lost connection: the message then comes again, as it may always do.
    """

    @property
    def body(self) -> bytes: ...
    @property
    def message_id(self) -> str: ...
    @property
    def n_deliveries(self) -> int:
        """1 at the first delivery."""
        ...

    @property
    def offset(self) -> int | None:
        """Position in the stream; None for queues and topics."""
        ...

    async def ack(self) -> None:
        """Done with it. The server may learn so some 20 ms later, together with other acks."""
        ...

    async def nack(self, *, delay_s: float = 0.0) -> None:
        """Hand back, to come again after `delay_s`."""
        ...

    async def dead_letter(self, reason: str) -> None:
        """Give up: the message moves to `dead` with the reason."""
        ...


class Consumer(Protocol):
    """Deliveries as an async iterator for one task.

    It ends after `stop`, and when the queue or stream is deleted; it raises `BrokerClosed` when the
    broker was closed.
    """

    def __aiter__(self) -> AsyncIterator[Delivery]: ...
    async def __anext__(self) -> Delivery: ...
    async def stop(self) -> None:
        """Take no more; what was not handed out yet goes back, what is held can still be settled."""
        ...


class WorkBroker(Protocol):
    """The part of the port that an env worker uses; all that a remote one has (`remote`).

    It takes work, passes it on and gives it up. It reads no stream, looks at no queue and no dead
    letter, and deletes nothing.
    """

    @property
    def description(self) -> str:
        """For people, without secrets: `in-process`, `RabbitMQ at localhost:5672`."""
        ...

    async def declare(self, *addresses: Address) -> None:
        """Create what is not there yet. Idempotent; fallbacks and `dead` come along."""
        ...

    async def publish(
        self, address: Address, body: bytes, *, message_id: str, timeout_s: float = 90.0
    ) -> None:
        """Return once the broker has confirmed.

        Raises `Unroutable` when nobody is behind a queue or home, `BrokerUnavailable` after
        `timeout_s`. A full queue holds the caller back until it has drained (back-pressure).
        """
        ...

    def consume(
        self, queue: WorkQueue | Home, *, prefetch: int
    ) -> AbstractAsyncContextManager[Consumer]:
        """On leaving the context everything unsettled goes back to the queue."""
        ...

    def subscribe(self, topic: Topic) -> AbstractAsyncContextManager[Consumer]: ...

    async def dead_letter(
        self, body: bytes, *, origin: WorkQueue | Home, reason: str, message_id: str
    ) -> None:
        """Give up a part of a message: put `body` into `dead`, confirmed, as if it came from `origin`."""
        ...

    async def close(self) -> None:
        """Hand back what is held and let go. Calls under way raise `BrokerClosed`."""
        ...


class Broker(WorkBroker, Protocol):
    """All of it, for who reaches the broker itself."""

    @property
    def is_durable(self) -> bool:
        """True where queued messages outlive this process."""
        ...

    async def delete(self, *addresses: Address) -> None:
        """Remove with all messages. Deleting what is not there is no error."""
        ...

    def stop_declaring(self, *addresses: Address) -> None:
        """Somebody else looks after these from now on: we declare them no more after a lost
        connection."""
        ...

    async def tidy(self) -> None:
        """Clear away the queues that the server broke and can't forget by itself.

        Runs until cancelled, or returns where that never happens. One client has to do it; it does no
        harm if many do.
        """
        ...

    def read(
        self, stream: Stream, *, start: StreamStart, prefetch: int = 200, aside: bool = False
    ) -> AbstractAsyncContextManager[Consumer]:
        """`aside`: for readers of whom there may be many; what they use up, nobody else lacks."""
        ...

    async def depth(self, queue: WorkQueue | Home) -> int | None:
        """Messages that wait for a consumer; None when there is no such queue."""
        ...

    async def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        """Oldest first, without removing them."""
        ...

    async def look_at_dead_letters(
        self, look: Callable[[DeadLetter], SeenT | None], *, limit: int, max_bytes: int
    ) -> list[SeenT]:
        """What `look` makes of each letter, but None, oldest first; its body is let go at once.

        It is called in a thread where a body is large, one letter at a time, and ends after `limit`
        letters or with the one that makes it `max_bytes` of bodies.
        """
        ...

    async def requeue_dead_letter(self, letter_id: str) -> bool:
        """Publish it to its origin again; False when it is not there (any more).

        Raises `Unroutable` when the origin is gone, and `BrokerUnavailable` when it is full; it
        then stays in `dead`.
        """
        ...

    async def drop_dead_letters(self, letter_ids: Collection[str]) -> int:
        """Forget these, in one pass; how many were there."""
        ...

    async def drop_dead_letter(self, letter_id: str) -> bool:
        """Forget it; False when it is not there (any more)."""
        ...
