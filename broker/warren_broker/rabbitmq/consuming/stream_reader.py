"""Readers of streams.

Invariants: each offset is handed out once and in order, across any number of lost connections; an
ack only gives back credit. Nack, reject and get are never sent: the server closes the connection.
"""

import asyncio
import time
from collections import deque
from datetime import UTC, datetime

from aio_pika.abc import AbstractChannel
from aiormq.abc import AbstractChannel as Frames
from aiormq.abc import ArgumentsType, DeliveredMessage

from warren_broker.errors import BrokerError
from warren_broker.port import FromTime, StreamStart
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.connection.failures import settle
from warren_broker.rabbitmq.consuming.subscription import Subscription
from warren_broker.rabbitmq.entities.declare_calls import declare
from warren_broker.rabbitmq.entities.entities import QueueEntity
from warren_broker.rabbitmq.publishing.messages import OFFSET, id_of, offset_of, published_s
from warren_broker.waiting_consumer import WaitingConsumer

CLOCK_SKEW_S = 10.0
"""How far the clocks of publishers and the server may differ without a message being missed."""


class Position:
    """Where a reader is in its stream.

    The server finds a time only to the second and the chunk, so we ask for somewhat earlier and skip
    what was published before. A time to come means what comes `next`. A reader of what comes `next` that loses its connection before
    anything came goes on from the time at which it began.
    """

    def __init__(self, start: StreamStart) -> None:
        is_past = isinstance(start, FromTime) and start.unix_s < time.time()
        self._is_next = start == "next" or (isinstance(start, FromTime) and not is_past)
        self._since_s = start.unix_s if isinstance(start, FromTime) and is_past else None
        self._next = start if isinstance(start, int) else None
        self._began_s: float | None = None
        self._has_taken = False

    def ask(self) -> str | int | datetime:
        """What to ask of the server at an attach."""
        if self._next is not None:
            return self._next or "first"
        if self._is_next and self._began_s is None:
            self._began_s = time.time()
            return "next"
        self._since_s = self._since_s or self._began_s
        if self._since_s is None:
            return "first"
        return datetime.fromtimestamp(max(0.0, self._since_s - CLOCK_SKEW_S), UTC)

    def admits(self, offset: int, published_s: float | None) -> bool:
        """Whether to hand this one out; if so, the position moves behind it."""
        if self._next is not None and offset < self._next:
            return False
        is_early = (published_s or self._since_s or 0.0) < (self._since_s or 0.0)
        if is_early and not self._has_taken:
            return False
        self._has_taken = True
        self._next = offset + 1
        return True

    def rewind(self, offset: int) -> None:
        """This one was not handed out after all, nor any behind it."""
        self._next = offset


class StreamDelivery:
    __slots__ = ("_frames", "_message", "_offset")

    def __init__(self, frames: Frames, message: DeliveredMessage, offset: int) -> None:
        self._frames: Frames | None = frames
        self._message = message
        self._offset = offset

    @property
    def body(self) -> bytes:
        return self._message.body

    @property
    def message_id(self) -> str:
        return id_of(self._message)

    @property
    def n_deliveries(self) -> int:
        return 1

    @property
    def offset(self) -> int:
        return self._offset

    async def ack(self) -> None:
        frames, self._frames = self._frames, None
        if frames is not None:
            await settle(frames.basic_ack(self._message.delivery_tag or 0, wait=False))

    async def nack(self, *, delay_s: float = 0.0) -> None:
        raise BrokerError("a stream can't take a message back; read it again from its offset")

    async def dead_letter(self, reason: str) -> None:
        raise BrokerError("a message of a stream stays in the stream; it can't be given up")


class StreamReader(WaitingConsumer):
    """One reader of one stream, for one task."""

    needs_no_ack = False
    outlives_queue = False

    def __init__(self, link: Link, stream: QueueEntity, start: StreamStart, prefetch: int) -> None:
        super().__init__()
        self.prefetch = prefetch
        self.subscription = Subscription(link, self)
        self._stream = stream
        self._position = Position(start)
        self._box: deque[StreamDelivery] = deque()
        self._skipped: set[asyncio.Task[None]] = set()

    @property
    def arguments(self) -> ArgumentsType:
        return {OFFSET: self._position.ask()}

    async def stop(self) -> None:
        await self.subscription.stop()
        self.end()

    async def attach(self, channel: AbstractChannel) -> str:
        await declare(channel, self._stream)
        return self._stream.name

    def accept(self, frames: Frames, message: DeliveredMessage) -> None:
        offset = offset_of(message)
        delivery = StreamDelivery(frames, message, offset)
        if self._position.admits(offset, published_s(message)):
            self._box.append(delivery)
            self._wake()
        else:
            self._skip(delivery)

    def detached(self) -> None:
        """What nobody took comes again, so that no more than `prefetch` lies here."""
        if self._box:
            self._position.rewind(self._box[0].offset)
            self._box.clear()

    def _skip(self, delivery: StreamDelivery) -> None:
        task = asyncio.create_task(delivery.ack(), name="skip a message of a stream")
        self._skipped.add(task)
        task.add_done_callback(self._skipped.discard)

    def _take(self) -> StreamDelivery | None:
        return self._box.popleft() if self._box else None
