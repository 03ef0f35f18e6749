"""Publishing with confirms: the only way in which anything is published.

Invariants:
- `publish` returns only after the server has confirmed the message; every attempt whose outcome is
  unknown is repeated, so there may be duplicates, never gaps.
- A channel on which a confirm did not come in time is closed and never used again: on RabbitMQ 3.10
  such a channel may confirm later messages without writing them.
- One publisher is one channel; a stream has a publisher to itself, for the same reason. One that is
  closed keeps none, also where what was under way needed another one to come through.
- A returned message is an error at once, except shortly after connecting: a server that has just
  started answers "no route" for durable names whose leader is not up yet.
"""

import asyncio
import logging

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity, DeliveryError, PublishError
from aiormq.abc import AbstractChannel as Frames
from pamqp.commands import Basic

from warren_broker.backoff import pauses
from warren_broker.errors import BrokerUnavailable, Unroutable
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.connection.failures import Lost, amqp
from warren_broker.rabbitmq.publishing.messages import OutgoingMessage

ROUTE_GRACE_S = 15.0
FIRST_ROUTE_GRACE_S = 1.0
"""The same for the first connection: this process may have come up together with the server."""
LONGEST_PAUSE_S = 1.0
PERSISTENT = 2

log = logging.getLogger(__name__)


class Publisher:
    """One publishing channel, replaced whenever it is in doubt."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._confirm_s = link.timings.confirm_s
        self._channel: AbstractChannel | None = None
        self._frames: Frames | None = None
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.n_under_way = 0

    async def publish(self, outgoing: OutgoingMessage, *, deadline: float) -> None:
        """Return once confirmed.

        Raises `Unroutable`, `BrokerUnavailable` after `deadline` (on the event loop's clock), and
        `BrokerClosed`.
        """
        self.n_under_way += 1
        try:
            await self._publish(outgoing, deadline)
        finally:
            self.n_under_way -= 1
            if self._is_closed and not self.n_under_way:
                self._discard(self._frames)

    async def close(self) -> None:
        self._is_closed = True
        self._discard(self._frames)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _publish(self, outgoing: OutgoingMessage, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        waits = pauses(longest_s=LONGEST_PAUSE_S)
        began = loop.time()
        while True:
            failure = await self._attempt(outgoing, deadline)
            if failure is None:
                return
            if isinstance(failure, PublishError) and not self._may_find_route(outgoing):
                raise Unroutable(f"nobody is behind {outgoing.routing_key}")
            pause_s = next(waits)
            if loop.time() + pause_s > deadline:
                raise BrokerUnavailable(
                    f"no confirm for {outgoing.routing_key or outgoing.exchange} within"
                    f" {loop.time() - began:.3g} s: {_reason(failure)}"
                ) from failure
            log.debug("publishing to %s again: %s", outgoing.routing_key, _reason(failure))
            await asyncio.sleep(pause_s)

    async def _attempt(self, outgoing: OutgoingMessage, deadline: float) -> Exception | None:
        """Publish once. Returns what went wrong, if it may go right another time."""
        try:
            frames = self._frames or await self._open(deadline)
        except (Lost, TimeoutError) as error:
            return error
        try:
            with amqp():
                await self._send(frames, outgoing, deadline)
        except DeliveryError as error:
            return error
        except (Lost, ChannelNotFoundEntity) as error:
            self._discard(frames)
            return error
        return None

    async def _send(self, frames: Frames, outgoing: OutgoingMessage, deadline: float) -> None:
        left_s = max(0.0, deadline - asyncio.get_running_loop().time())
        await frames.basic_publish(
            outgoing.body,
            exchange=outgoing.exchange,
            routing_key=outgoing.routing_key,
            properties=Basic.Properties(delivery_mode=PERSISTENT, headers=dict(outgoing.headers)),
            mandatory=outgoing.is_mandatory,
            timeout=min(self._confirm_s, left_s),
        )

    async def _open(self, deadline: float) -> Frames:
        async with asyncio.timeout_at(deadline), self._opening:
            if self._frames is None:
                self._channel = await self._link.open_channel(confirms=True)
                self._frames = await self._channel.get_underlay_channel()
            return self._frames

    def _discard(self, frames: Frames | None) -> None:
        """Never use this channel again."""
        if frames is None or frames is not self._frames or self._channel is None:
            return
        channel, self._channel, self._frames = self._channel, None, None
        closing = self._link.close_channel(channel)
        task = asyncio.create_task(closing, name="close a publishing channel")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _may_find_route(self, outgoing: OutgoingMessage) -> bool:
        if not outgoing.has_route_grace:
            return False
        grace_s = FIRST_ROUTE_GRACE_S if self._link.n_connections == 1 else ROUTE_GRACE_S
        return asyncio.get_running_loop().time() < self._link.connected_s + grace_s


def _reason(failure: Exception) -> str:
    if isinstance(failure, PublishError):
        return "no queue of that name"
    if isinstance(failure, DeliveryError):
        return "the queue is full"
    return str(failure) or "there is no connection"
