"""One consumer of a remote worker: from the broker to its socket, and its acks back.

Invariants: what was not settled goes back to the queue when the worker leaves or its session
ends, however it ends; a delivery is settled once; no more are under way than the worker asked for,
which is what the broker's own prefetch sees to.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from itertools import count

from warren_broker.errors import BrokerClosed, BrokerError
from warren_broker.port import Broker, Consumer, Delivery
from warren_broker.remote.frames import Delivered, Ended, Settle
from warren_broker.topology import Home, Topic, WorkQueue
from warren_gateway.remote.grants import Grants

SETTLE_S = 5.0
"""How long the last acks may take when a worker leaves."""

Send = Callable[[Delivered | Ended, bytes], Awaitable[None]]

log = logging.getLogger(__name__)


class ConsumerRelay:
    def __init__(
        self, number: int, source: WorkQueue | Home | Topic, grants: Grants, send: Send
    ) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number = number
        self._source = source
        self._grants = grants
        self._send = send
        self._consumer: Consumer | None = None
        self._tags = count(1)
        self._held: dict[int, Delivery] = {}
        self._settling: set[asyncio.Task[None]] = set()
        self._is_pumped = asyncio.Event()
        self._has_left = asyncio.Event()
        self._is_over = asyncio.Event()
        self._is_stopped = False

    async def serve(self, broker: Broker, *, prefetch: int) -> None:
        """Until the worker leaves. Cancelled, it hands back at once."""
        try:
            self._grants.consume(self._source)
            async with _consuming(broker, self._source, prefetch) as consumer:
                self._consumer = consumer
                if self._is_stopped:
                    await consumer.stop()
                self.opened.set_result(None)
                await self._pump(consumer)
                await self._has_left.wait()
                await self._settle_the_last()
        except BrokerClosed:
            raise
        except BrokerError as error:
            await self._failed(error)
        finally:
            self._is_pumped.set()
            self._is_over.set()

    async def stop(self) -> None:
        """Return when nothing more will be delivered."""
        self._is_stopped = True
        if self._consumer is not None:
            await self._consumer.stop()
            await self._is_pumped.wait()

    async def leave_queue(self) -> None:
        """Return when what was not settled is back in its queue."""
        await self.stop()
        self._has_left.set()
        await self._is_over.wait()

    def settle(self, frame: Settle) -> None:
        """What is not held any more comes again by itself, or was settled before."""
        delivery = self._held.pop(frame.delivery, None)
        if delivery is None:
            return
        task = asyncio.create_task(_settle(delivery, frame), name="settle for a remote worker")
        self._settling.add(task)
        task.add_done_callback(self._settled)

    async def _pump(self, consumer: Consumer) -> None:
        async for delivery in consumer:
            parts = await self._grants.show(self._source, delivery.body)
            if not parts:
                await delivery.ack()
            for body in parts:
                await self._deliver(delivery, body)
        self._is_pumped.set()
        if not self._is_stopped:
            await self._send(Ended(consumer=self._number), b"")

    async def _deliver(self, delivery: Delivery, body: bytes) -> None:
        tag = next(self._tags)
        if not isinstance(self._source, Topic):
            self._held[tag] = delivery
        frame = Delivered(
            consumer=self._number,
            delivery=tag,
            message_id=delivery.message_id,
            n_deliveries=delivery.n_deliveries,
        )
        await self._send(frame, body)

    async def _settle_the_last(self) -> None:
        if self._settling:
            await asyncio.wait(self._settling, timeout=SETTLE_S)

    async def _failed(self, error: BrokerError) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
        else:
            await self._send(Ended(consumer=self._number, error=str(error)), b"")

    def _settled(self, task: "asyncio.Task[None]") -> None:
        self._settling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("not settled for a remote worker, and comes again: %s", error)


def _consuming(
    broker: Broker, source: WorkQueue | Home | Topic, prefetch: int
) -> AbstractAsyncContextManager[Consumer]:
    if isinstance(source, Topic):
        return broker.subscribe(source)
    return broker.consume(source, prefetch=prefetch)


async def _settle(delivery: Delivery, frame: Settle) -> None:
    match frame.how:
        case "ack":
            await delivery.ack()
        case "nack":
            await delivery.nack(delay_s=frame.delay_s)
        case "dead_letter":
            await delivery.dead_letter(frame.reason)
