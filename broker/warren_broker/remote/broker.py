"""The broker port through a gateway: the client's side.

Invariant: a call is tried again in the next session, with the same message id, until the gateway
has carried it out or refused it, or the caller's deadline has passed. So publishing twice is possible,
and losing a message that was confirmed is not.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

from warren_broker.backoff import pauses
from warren_broker.errors import BrokerUnavailable, NotAllowed
from warren_broker.port import MAX_REASON_CHARS
from warren_broker.remote.consumer import RemoteConsumer
from warren_broker.remote.frames import (
    HEARTBEAT_S,
    MAX_PREFETCH,
    AnyCall,
    Declare,
    GiveUp,
    HomeRef,
    Publish,
    QueueRef,
    TopicRef,
    place_ref,
    ref_of,
)
from warren_broker.remote.link import Link
from warren_broker.remote.session import Lost, Refused, Session
from warren_broker.topology import Address, Home, Topic, WorkQueue
from warren_schemas.codec.frame import MAX_MESSAGE_BYTES

OPEN_S = 10.0
CALL_S = 60.0
ATTACH_S = 90.0

Make = Callable[[int, float], AnyCall]
"""A call from its number and the seconds that are left for it."""


@asynccontextmanager
async def open_remote(
    url: str,
    *,
    api_key: str,
    worker: str,
    open_s: float = OPEN_S,
    heartbeat_s: float = HEARTBEAT_S,
) -> AsyncGenerator["RemoteBroker"]:
    """The broker behind the gateway at `url` (http or https), as far as this key's owner may use it.

    `worker` is this worker's id. Raises `BrokerUnavailable` when no gateway answers within `open_s`,
    `NotAllowed` when it refuses. A gateway that says nothing for about `heartbeat_s` is lost.
    """
    link = Link(url, api_key, worker, heartbeat_s=heartbeat_s)
    broker = RemoteBroker(link)
    try:
        await link.start(open_s)
        yield broker
    finally:
        await broker.close()


class RemoteBroker:
    """`port.WorkBroker` through a gateway. Made by `open_remote`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.description = link.description

    @property
    def owner(self) -> str:
        """Whose API key it is."""
        return self._link.owner

    async def declare(self, *addresses: Address) -> None:
        """Raises `NotAllowed`, `BrokerUnavailable`."""
        await asyncio.gather(*(self._declare(address) for address in addresses))

    async def _declare(self, address: Address) -> None:
        make = partial(_declare, address)
        await self._patiently(make, what=f"declaring {address.name}", timeout_s=CALL_S)
        self._link.declared[address] = None

    async def publish(
        self, address: Address, body: bytes, *, message_id: str, timeout_s: float = 90.0
    ) -> None:
        """As the port has it; raises `NotAllowed` too, for what this owner may not publish."""
        make = partial(_publish, address, message_id)
        await self._patiently(make, body, what=f"publishing to {address.name}", timeout_s=timeout_s)

    @asynccontextmanager
    async def consume(
        self, queue: WorkQueue | Home, *, prefetch: int
    ) -> AsyncGenerator[RemoteConsumer]:
        async with self._attached(place_ref(queue), prefetch) as consumer:
            yield consumer

    @asynccontextmanager
    async def subscribe(self, topic: Topic) -> AsyncGenerator[RemoteConsumer]:
        async with self._attached(TopicRef(name=topic.name), 1) as consumer:
            yield consumer

    async def dead_letter(
        self, body: bytes, *, origin: WorkQueue | Home, reason: str, message_id: str
    ) -> None:
        make = partial(_give_up, origin, reason, message_id)
        await self._patiently(make, body, what=f"giving up a part of {origin.name}")

    async def close(self) -> None:
        await self._link.close()

    @asynccontextmanager
    async def _attached(
        self, source: QueueRef | HomeRef | TopicRef, prefetch: int
    ) -> AsyncGenerator[RemoteConsumer]:
        consumer = RemoteConsumer(self._link, source, prefetch=min(prefetch, MAX_PREFETCH))
        consuming = asyncio.create_task(consumer.keep(), name=f"consume {source.name}")
        try:
            async with asyncio.timeout(ATTACH_S):
                await asyncio.shield(consumer.attached)
            yield consumer
        except TimeoutError as error:
            if consumer.attached.done():
                raise
            raise BrokerUnavailable(f"{self.description} gave no consumer its place") from error
        finally:
            consuming.cancel()
            await asyncio.wait([consuming])
            await consumer.leave_queue()

    async def _patiently(
        self, make: Make, body: bytes = b"", *, what: str, timeout_s: float = CALL_S
    ) -> None:
        if len(body) > MAX_MESSAGE_BYTES:
            raise NotAllowed(f"{what}: {len(body)} bytes are more than {MAX_MESSAGE_BYTES}")
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                for pause_s in pauses():
                    if await self._is_done(make, body, deadline):
                        return
                    await asyncio.sleep(pause_s)
        except TimeoutError as error:
            raise BrokerUnavailable(
                f"{what}: {self.description} did not confirm within {timeout_s:g} s"
            ) from error

    async def _is_done(self, make: Make, body: bytes, deadline: float) -> bool:
        """Try once; False when it may succeed later."""
        session: Session = await self._link.session()
        try:
            async with session.window.enter(len(body)):
                left_s = deadline - asyncio.get_running_loop().time()
                await session.call(make(session.number(), max(0.0, left_s)), body)
        except Lost:
            return False
        except Refused as refused:
            if refused.code == "unavailable":
                return False
            raise refused.as_error from None
        return True


def _declare(address: Address, number: int, _: float) -> Declare:
    return Declare(call=number, address=ref_of(address))


def _publish(address: Address, message_id: str, number: int, left_s: float) -> Publish:
    return Publish(call=number, address=ref_of(address), message_id=message_id, timeout_s=left_s)


def _give_up(
    origin: WorkQueue | Home, reason: str, message_id: str, number: int, _: float
) -> GiveUp:
    return GiveUp(
        call=number,
        origin=place_ref(origin),
        reason=reason[:MAX_REASON_CHARS],
        message_id=message_id,
    )
