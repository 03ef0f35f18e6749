"""The inbox: messages in, as claims on their items; acked when the last item is done.

Invariant: a message is acked only after every one of its items was settled: done (its successor is
confirmed), handed back (published again by itself) or dead-lettered. A message that can't be
decoded, and an item that doesn't validate, goes to `dead` with the reason and holds nobody up.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from warren_broker.port import Broker, StreamStart
from warren_broker.topology import Home, Stream, Topic, WorkQueue
from warren_schemas.envelope import Item

ItemT = TypeVar("ItemT", bound=Item)
ItemT_co = TypeVar("ItemT_co", bound=Item, covariant=True)


class Claim(Protocol[ItemT_co]):
    """One item in our hands. Settle it exactly once."""

    @property
    def item(self) -> ItemT_co: ...
    @property
    def n_deliveries(self) -> int: ...
    @property
    def offset(self) -> int | None: ...
    def done(self) -> None:
        """Its successor is safe. The ack follows by itself when all items of the message are."""
        ...

    def hand_back(self, *, delay_s: float = 0.0) -> None:
        """Somebody else (or we, later) should take it; its neighbours are not affected."""
        ...

    def dead_letter(self, reason: str) -> None:
        """Give this item up; it goes to `dead` as a message of its own."""
        ...


class Inbox(Protocol[ItemT_co]):
    """Messages as lists of claims; iteration ends after `stop`."""

    def __aiter__(self) -> AsyncIterator[Sequence[Claim[ItemT_co]]]: ...
    async def __anext__(self) -> Sequence[Claim[ItemT_co]]: ...
    async def stop(self) -> None: ...


def receive(
    broker: Broker,
    queue: WorkQueue | Home,
    kinds: type[ItemT] | tuple[type[ItemT], ...],
    *,
    prefetch: int,
) -> AbstractAsyncContextManager[Inbox[ItemT]]:
    """Claims on the items of a queue; items of other kinds are dead-lettered.

    Leaving the context hands back what was not settled.
    """
    raise NotImplementedError


def follow(
    broker: Broker, stream: Stream, kind: type[ItemT], *, start: StreamStart, prefetch: int = 200
) -> AbstractAsyncContextManager[Inbox[ItemT]]:
    """The items of a stream; what doesn't validate is skipped with a log line (it stays in the stream)."""
    raise NotImplementedError


def listen(
    broker: Broker, topic: Topic, kind: type[ItemT]
) -> AbstractAsyncContextManager[Inbox[ItemT]]:
    """The items of a topic; what doesn't validate is skipped with a log line."""
    raise NotImplementedError
