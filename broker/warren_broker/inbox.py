"""The inbox: messages in, as claims on their items; acked when the last item is done.

Invariant: a message is acked only after every one of its items was settled: done (its successor is
confirmed), handed back (published again by itself) or dead-lettered. A message that can't be
decoded, and an item that doesn't validate, goes to `dead` with the reason and holds nobody up.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, Protocol, Self, TypeVar

from warren_broker.port import Broker, Consumer, Delivery, StreamStart, WorkBroker
from warren_broker.settling import OpenMessage, QueueSettler, Settler, StreamSettler
from warren_broker.topology import Home, Stream, Topic, WorkQueue
from warren_schemas.codec.frame import WireError
from warren_schemas.codec.wire import decode, encode
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


@asynccontextmanager
async def receive(
    broker: WorkBroker,
    queue: WorkQueue | Home,
    kinds: type[ItemT] | tuple[type[ItemT], ...],
    *,
    prefetch: int,
) -> AsyncGenerator[Inbox[ItemT]]:
    """Claims on the items of a queue; items of other kinds are dead-lettered.

    `prefetch` counts messages, each of up to `wire.MAX_ITEMS` items. Leaving the context hands back
    what was not settled, whole messages with all their items.
    """
    async with (
        broker.consume(queue, prefetch=prefetch) as consumer,
        _opened(consumer, QueueSettler(broker, queue), kinds) as inbox,
    ):
        yield inbox


@asynccontextmanager
async def follow(
    broker: Broker,
    stream: Stream,
    kind: type[ItemT],
    *,
    start: StreamStart,
    prefetch: int = 200,
    aside: bool = False,
) -> AsyncGenerator[Inbox[ItemT]]:
    """The items of a stream; what doesn't validate is skipped with a log line (it stays there).

    All items of one message have the same offset. `hand_back` is a `TypeError` here.
    """
    async with (
        broker.read(stream, start=start, prefetch=prefetch, aside=aside) as consumer,
        _opened(consumer, StreamSettler(stream.name), kind) as inbox,
    ):
        yield inbox


@asynccontextmanager
async def listen(
    broker: WorkBroker, topic: Topic, kinds: type[ItemT] | tuple[type[ItemT], ...]
) -> AsyncGenerator[Inbox[ItemT]]:
    """The items of a topic; what doesn't validate is skipped with a log line."""
    async with (
        broker.subscribe(topic) as consumer,
        _opened(consumer, StreamSettler(topic.name), kinds) as inbox,
    ):
        yield inbox


async def hear(
    broker: WorkBroker,
    topic: Topic,
    kinds: type[ItemT] | tuple[type[ItemT], ...],
    tell: Callable[[Sequence[ItemT]], None],
) -> None:
    """Tell what is said in a topic, as it comes, until cancelled."""
    async with listen(broker, topic, kinds) as inbox:
        async for claims in inbox:
            tell([claim.item for claim in claims])
            for claim in claims:
                claim.done()


@asynccontextmanager
async def _opened(
    consumer: Consumer, settler: Settler, kinds: type[ItemT] | tuple[type[ItemT], ...]
) -> AsyncGenerator[Inbox[ItemT]]:
    try:
        yield _Inbox(consumer, settler, kinds if isinstance(kinds, tuple) else (kinds,))
    finally:
        await consumer.stop()
        await settler.close()


class _Claim(Generic[ItemT]):
    __slots__ = ("_is_settled", "_message", "_settler", "item")

    def __init__(self, item: ItemT, message: OpenMessage, settler: Settler) -> None:
        self.item = item
        self._message = message
        self._settler = settler
        self._is_settled = False

    @property
    def n_deliveries(self) -> int:
        return self._message.delivery.n_deliveries

    @property
    def offset(self) -> int | None:
        return self._message.delivery.offset

    def done(self) -> None:
        self._settle()
        self._message.settled()

    def hand_back(self, *, delay_s: float = 0.0) -> None:
        self._settle()
        self._settler.hand_back(self._message, self.item, delay_s)

    def dead_letter(self, reason: str) -> None:
        self._settle()
        self._settler.give_up(self._message, encode([self.item]), reason)

    def _settle(self) -> None:
        if self._is_settled:
            raise RuntimeError(f"{self.item.envelope.id} is settled already")
        self._is_settled = True


class _Inbox(Generic[ItemT]):
    def __init__(
        self, consumer: Consumer, settler: Settler, kinds: tuple[type[ItemT], ...]
    ) -> None:
        self._consumer = consumer
        self._settler = settler
        self._kinds = kinds

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[Claim[ItemT]]:
        while True:
            if claims := self._open(await self._consumer.__anext__()):
                return claims

    async def stop(self) -> None:
        await self._consumer.stop()

    def _open(self, delivery: Delivery) -> list[_Claim[ItemT]]:
        try:
            decoded = decode(delivery.body)
        except WireError as error:
            self._settler.reject(delivery, f"unreadable: {error}")
            return []
        if any(not isinstance(item, self._kinds) for item in decoded.items):
            self._settler.reject(delivery, self._wrong_kind(decoded.items))
            return []
        message = OpenMessage(delivery, len(decoded.items) + len(decoded.rejected), self._settler)
        for bad in decoded.rejected:
            self._settler.give_up(message, bad.body, f"invalid item: {bad.reason}")
        return [
            _Claim(item, message, self._settler)
            for item in decoded.items
            if isinstance(item, self._kinds)
        ]

    def _wrong_kind(self, items: list[Item]) -> str:
        taken = " or ".join(kind.kind for kind in self._kinds)
        return f"wrong kind: expected {taken}, got {items[0].kind}"
