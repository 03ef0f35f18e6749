"""One consumer at the server, kept alive across lost connections.

Invariants:
- The callback of the connection only hands over: aio-pika cancels it when the connection is lost.
- After a reconnect the consumer is attached anew on a channel of its own; `detached` is called in
  between, so that whoever buffers deliveries can drop those that will come again.
- A queue that was deleted ends the iteration; a consumer that the server cancelled for any other
  reason (a leader that moved), or whose queue is its own affair, is attached anew.
- Leaving closes the channel, and the server takes back whatever was not settled on it.
"""

import asyncio
import logging
from typing import Protocol

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity
from aiormq.abc import AbstractChannel as Frames
from aiormq.abc import ArgumentsType, DeliveredMessage
from pamqp.commands import Basic

from warren_broker.backoff import pauses
from warren_broker.errors import BrokerError
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.connection.failures import Lost, amqp
from warren_broker.rabbitmq.entities.declare_calls import inspect

ATTACH_S = 10.0

log = logging.getLogger(__name__)


class Taker(Protocol):
    """What a kind of consumer does with its place at the server."""

    async def attach(self, channel: AbstractChannel) -> str:
        """Declare what must be there; return the name of the queue to consume from."""
        ...

    @property
    def prefetch(self) -> int:
        """Most unacknowledged messages; 0 for no limit."""
        ...

    @property
    def arguments(self) -> ArgumentsType:
        """Of `basic.consume`, asked for again at every attach."""
        ...

    @property
    def needs_no_ack(self) -> bool:
        """Whether a message counts as settled once it was sent."""
        ...

    @property
    def outlives_queue(self) -> bool:
        """Whether it takes another queue where its queue was deleted."""
        ...

    def accept(self, frames: Frames, message: DeliveredMessage) -> None:
        """Take a message over, at once."""
        ...

    def detached(self) -> None:
        """The channel is gone; what was taken over and not settled comes again."""
        ...

    def end(self, error: Exception | None = None) -> None:
        """Nothing comes any more."""
        ...


class Subscription:
    """Keeps `taker` attached until it is stopped or its queue is deleted."""

    def __init__(self, link: Link, taker: Taker) -> None:
        self._link = link
        self._taker = taker
        self._channel: AbstractChannel | None = None
        self._frames: Frames | None = None
        self._tag: str | None = None
        self._queue = ""
        self._gone = asyncio.Event()
        self._was_cancelled = False
        self._is_stopped = False
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def attached(self) -> None:
        """Return when deliveries can come. Raises why they never will."""
        await asyncio.shield(self._first)

    async def run(self) -> None:
        """Attach, and attach again, until there is nothing more to come."""
        waits = pauses()
        while not self._is_stopped:
            try:
                await self._attach()
                waits = pauses()
                await self._gone.wait()
                self._taker.detached()
                if await self._is_over():
                    return self._taker.end()
            except (Lost, ChannelNotFoundEntity) as error:
                log.debug("not attached: %s", error)
            except BrokerError as error:
                return self.fail(error)
            finally:
                await self._let_go()
            await asyncio.sleep(next(waits))

    async def stop(self) -> None:
        """Ask for no more; what was taken over can still be settled."""
        self._is_stopped = True
        if self._frames is not None and self._tag is not None:
            await self._link.closings.close(self._frames.basic_cancel(self._tag))

    async def _attach(self) -> None:
        gone = self._gone = asyncio.Event()
        self._was_cancelled = False

        def closed(_: object, __: object) -> None:
            gone.set()

        self._channel = await self._link.open_channel()
        self._channel.close_callbacks.add(closed)
        frames = self._frames = await self._channel.get_underlay_channel()
        frames.on_consumer_cancel_callbacks.add(self._on_cancel)
        queue = await self._taker.attach(self._channel)
        with amqp():
            async with asyncio.timeout(ATTACH_S):
                self._tag = await self._consume(frames, queue)
        if not self._first.done():
            self._first.set_result(None)

    async def _consume(self, frames: Frames, queue: str) -> str | None:
        async def take(message: DeliveredMessage) -> None:
            self._taker.accept(frames, message)

        await frames.basic_qos(prefetch_count=self._taker.prefetch)
        consuming = await frames.basic_consume(
            queue, take, no_ack=self._taker.needs_no_ack, arguments=self._taker.arguments
        )
        self._queue = queue
        return consuming.consumer_tag

    def _on_cancel(self, _: Basic.Cancel) -> None:
        self._was_cancelled = True
        self._gone.set()

    async def _is_over(self) -> bool:
        """Whether the queue was deleted, and the consumer ends with it."""
        if not self._was_cancelled or self._taker.outlives_queue:
            return False
        async with self._link.channel() as channel:
            return await inspect(channel, self._queue) is None

    async def _let_go(self) -> None:
        channel, self._channel, self._frames, self._tag = self._channel, None, None, None
        if channel is not None:
            await self._link.close_channel(channel)

    def fail(self, error: BrokerError) -> None:
        """Tell whoever waits to be attached, and the taker, that nothing comes any more."""
        if not self._first.done():
            self._first.set_exception(error)
        self._taker.end(error)
