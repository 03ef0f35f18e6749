"""Consumers at the worker's end.

Invariants: a delivery belongs to the session that it came by, and is settled once, there or
nowhere; when the session ends, what was not handed out yet is dropped here, for it comes again;
the consumer opens itself anew in every new session, until it is stopped.
"""

import asyncio
import logging
from collections import deque
from itertools import count
from typing import Literal

from warren_broker.backoff import pauses
from warren_broker.errors import BrokerError
from warren_broker.port import MAX_REASON_CHARS, Delivery
from warren_broker.remote.frames import (
    Consume,
    Delivered,
    HomeRef,
    Leave,
    QueueRef,
    Settle,
    Stop,
    TopicRef,
)
from warren_broker.remote.link import Link
from warren_broker.remote.session import Lost, Refused, Session
from warren_broker.topic_event import MAX_UNSEEN, TopicEvent
from warren_broker.waiting_consumer import WaitingConsumer

SETTLE_S = 5.0
"""How long an ack may take to get onto the wire, and a consumer to be left."""

_ids = count(1)

log = logging.getLogger(__name__)


class RemoteDelivery:
    """A message in our hands, as long as its session lasts."""

    __slots__ = ("_consumer", "_frame", "_is_settled", "_session", "body")

    def __init__(self, consumer: int, session: Session, frame: Delivered, body: bytes):
        self._consumer = consumer
        self._session = session
        self._frame = frame
        self._is_settled = False
        self.body = body

    @property
    def message_id(self) -> str:
        return self._frame.message_id

    @property
    def n_deliveries(self) -> int:
        return self._frame.n_deliveries

    @property
    def offset(self) -> int | None:
        return None

    async def ack(self) -> None:
        await self._settle("ack")

    async def nack(self, *, delay_s: float = 0.0) -> None:
        await self._settle("nack", delay_s=delay_s)

    async def dead_letter(self, reason: str) -> None:
        await self._settle("dead_letter", reason=reason[:MAX_REASON_CHARS])

    async def _settle(
        self, how: Literal["ack", "nack", "dead_letter"], *, delay_s: float = 0.0, reason: str = ""
    ) -> None:
        if self._is_settled:
            return
        self._is_settled = True
        settle = Settle(
            consumer=self._consumer,
            delivery=self._frame.delivery,
            how=how,
            delay_s=delay_s,
            reason=reason,
        )
        try:
            async with asyncio.timeout(SETTLE_S):
                await self._session.say(settle)
        except (Lost, TimeoutError) as error:
            log.debug("%s not settled: %s", self.message_id, error)


class RemoteConsumer(WaitingConsumer):
    """One consumer of a queue, home or topic, for one task."""

    def __init__(self, link: Link, source: QueueRef | HomeRef | TopicRef, *, prefetch: int) -> None:
        super().__init__()
        self.attached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._id = next(_ids)
        self._link = link
        self._source = source
        self._prefetch = prefetch
        self._is_topic = isinstance(source, TopicRef)
        self._box: deque[RemoteDelivery | TopicEvent] = deque(
            maxlen=MAX_UNSEEN if self._is_topic else None
        )
        self._session: Session | None = None
        self._is_stopped = False
        link.takers[self._id] = self

    async def keep(self) -> None:
        """Attach, and attach again, until the consumer is stopped."""
        waits = pauses()
        while not self._is_stopped:
            try:
                session = await self._link.session()
                if self._is_stopped:
                    return
                await self._attach(session)
                waits = pauses()
                await session.over.wait()
            except Lost:
                pass
            except Refused as refused:
                if refused.code != "unavailable":
                    return self._fail(refused.as_error)
            except BrokerError as error:
                return self._fail(error)
            self._drop_what_comes_again()
            await asyncio.sleep(next(waits))

    async def stop(self) -> None:
        if self._is_stopped:
            return
        self._is_stopped = True
        session = self._session
        if session is not None:
            await _close_politely(session, Stop(call=session.number(), consumer=self._id))
        self.end()
        while self._box:
            delivery = self._box.pop()
            if isinstance(delivery, RemoteDelivery):
                await delivery.nack()

    async def leave_queue(self) -> None:
        """What is not settled goes back to the queue."""
        self._is_stopped = True
        session = self._session
        if session is not None:
            await _close_politely(session, Leave(call=session.number(), consumer=self._id))
        self.end()
        self._link.takers.pop(self._id, None)

    def deliver(self, session: Session, frame: Delivered, body: bytes) -> None:
        if self._is_topic:
            self._box.append(TopicEvent(body, frame.message_id))
        else:
            self._box.append(RemoteDelivery(self._id, session, frame, body))
        self._wake()

    def end_of_queue(self, error: str | None) -> None:
        self._is_stopped = True
        self.end(BrokerError(error) if error else None)

    async def _attach(self, session: Session) -> None:
        self._session = session
        consume = Consume(
            call=session.number(),
            consumer=self._id,
            source=self._source,
            prefetch=self._prefetch,
        )
        await session.call(consume)
        if not self.attached.done():
            self.attached.set_result(None)

    def _take(self) -> Delivery | None:
        return self._box.popleft() if self._box else None

    def _drop_what_comes_again(self) -> None:
        if not self._is_topic:
            self._box.clear()

    def _fail(self, error: BrokerError) -> None:
        if not self.attached.done():
            self.attached.set_exception(error)
        self.end(error)


async def _close_politely(session: Session, call: Stop | Leave) -> None:
    """A session that ends first has the same effect: the gateway hands everything back."""
    try:
        async with asyncio.timeout(SETTLE_S):
            await session.call(call)
    except (Lost, Refused, TimeoutError) as error:
        log.debug("%s: %s", call.kind, error)
