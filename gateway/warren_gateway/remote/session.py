"""One session of a remote worker, and all that is done for it meanwhile.

Invariants
- The socket is always read: a call is answered when it is done, and holds up no other and no
  heartbeat. How much may be under way is told in the welcome; more ends the session.
- A call is answered once, whatever becomes of it; what it was about is checked first (`grants`).
- When the session ends, at any line, every task of the session ends and every consumer hands back
  what was not settled.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial

import aiohttp
from aiohttp import web

from warren_broker.errors import (
    BrokerClosed,
    BrokerError,
    BrokerUnavailable,
    NotAllowed,
    Unroutable,
)
from warren_broker.port import Broker
from warren_broker.remote.frames import (
    FROM_WORKER,
    MALFORMED,
    OUT_OF_ORDER,
    TOO_MUCH,
    AnyCall,
    Consume,
    Declare,
    Done,
    Failed,
    FailureCode,
    FrameError,
    FromGateway,
    FromWorker,
    GiveUp,
    Hello,
    Leave,
    Publish,
    Settle,
    Stop,
    TopicRef,
    address_of,
    pack,
    place_of,
    unpack,
)
from warren_broker.topology import Topic
from warren_gateway.remote.consumer_relay import ConsumerRelay
from warren_gateway.remote.grants import Grants

MAX_CALLS = 128
MAX_BYTES = 16 * 1024 * 1024
"""Bodies of calls under way, all together, though one is always allowed."""
MAX_CONSUMERS = 96
"""Three for each of 30 environments, and the topics."""
MAX_TASKS = MAX_CALLS + 4 * MAX_CONSUMERS
"""A consumer is at work, and may be opened, stopped and left at once."""

log = logging.getLogger(__name__)


_Work = Declare | Publish | GiveUp | Stop | Leave


class Misconduct(Exception):
    """The worker broke the rules of the session, which ends with this code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class RemoteSession:
    def __init__(self, socket: web.WebSocketResponse, broker: Broker, grants: Grants) -> None:
        self._socket = socket
        self._broker = broker
        self._grants = grants
        self._relays: dict[int, ConsumerRelay] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._n_calls = 0
        self._n_bytes = 0
        self._farewell: asyncio.Task[bool] | None = None

    async def run(self) -> None:
        """Serve until the worker hangs up. Raises `Misconduct`."""
        try:
            while (data := await receive(self._socket)) is not None:
                self._take(*read_frame(data))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, frame: FromWorker, body: bytes) -> None:
        match frame:
            case Settle():
                if relay := self._relays.get(frame.consumer):
                    relay.settle(frame)
            case Hello():
                raise Misconduct(OUT_OF_ORDER, "a second hello")
            case Consume():
                self._start(self._answer(frame, partial(self._opened, frame, self._relay(frame))))
            case Stop() | Leave():
                self._start(self._answer(frame, partial(self._do, frame, body)))
            case Declare() | Publish() | GiveUp():
                self._admit(body)
                self._start(self._answered(frame, body))

    def _admit(self, body: bytes) -> None:
        if self._n_calls and (self._n_calls >= MAX_CALLS or self._n_bytes + len(body) > MAX_BYTES):
            raise Misconduct(TOO_MUCH, "more calls are under way than the welcome allowed")
        self._n_calls += 1
        self._n_bytes += len(body)

    async def _answered(self, frame: _Work, body: bytes) -> None:
        try:
            await self._answer(frame, partial(self._do, frame, body))
        finally:
            self._n_calls -= 1
            self._n_bytes -= len(body)

    def _relay(self, frame: Consume) -> ConsumerRelay:
        if frame.consumer in self._relays:
            raise Misconduct(OUT_OF_ORDER, f"consumer {frame.consumer} is open already")
        if len(self._relays) >= MAX_CONSUMERS:
            raise Misconduct(TOO_MUCH, f"one worker may have {MAX_CONSUMERS} consumers")
        ref = frame.source
        source = Topic(ref.name) if isinstance(ref, TopicRef) else place_of(ref)
        relay = ConsumerRelay(frame.consumer, source, self._grants, self._send)
        self._relays[frame.consumer] = relay
        self._start(relay.serve(self._broker, prefetch=frame.prefetch))
        return relay

    def _start(self, work: Coroutine[object, None, None]) -> None:
        if len(self._tasks) >= MAX_TASKS:
            work.close()
            raise Misconduct(TOO_MUCH, "more calls are under way than any worker needs")
        task = asyncio.create_task(work, name="remote worker")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, (ConnectionError, BrokerClosed)):
                log.error("a task for a remote worker broke", exc_info=error)
            # Whatever it was for, it won't be done: the worker begins again in a new session.
            self._farewell = asyncio.create_task(self._socket.close(code=1011), name="farewell")

    async def _answer(self, frame: AnyCall, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except BrokerError as error:
            code = _code(error)
            await self._send(Failed(call=frame.call, code=code, message=str(error)))
        else:
            await self._send(Done(call=frame.call))

    async def _do(self, frame: _Work, body: bytes) -> None:
        match frame:
            case Publish():
                address = address_of(frame.address)
                await self._grants.publish(address, body)
                await self._broker.publish(
                    address, body, message_id=frame.message_id, timeout_s=frame.timeout_s
                )
            case Declare():
                address = address_of(frame.address)
                self._grants.declare(address)
                await self._broker.declare(address)
            case GiveUp():
                await self._give_up(frame, body)
            case Stop():
                if relay := self._relays.get(frame.consumer):
                    await relay.stop()
            case Leave():
                if relay := self._relays.pop(frame.consumer, None):
                    await relay.leave_queue()

    async def _give_up(self, frame: GiveUp, body: bytes) -> None:
        origin = place_of(frame.origin)
        await self._grants.give_up(origin, body)
        await self._broker.dead_letter(
            body, origin=origin, reason=frame.reason, message_id=frame.message_id
        )

    async def _opened(self, frame: Consume, relay: ConsumerRelay) -> None:
        try:
            await relay.opened
        except BrokerError:
            self._relays.pop(frame.consumer, None)
            raise

    async def _send(self, frame: FromGateway, body: bytes = b"") -> None:
        await self._socket.send_bytes(pack(frame, body))


def _code(error: BrokerError) -> FailureCode:
    if isinstance(error, NotAllowed):
        return "not_allowed"
    if isinstance(error, Unroutable):
        return "unroutable"
    if isinstance(error, (BrokerUnavailable, BrokerClosed)):
        return "unavailable"
    return "failed"


def read_frame(data: bytes) -> tuple[FromWorker, bytes]:
    """Raises `Misconduct` for what is no frame."""
    try:
        return unpack(data, FROM_WORKER)
    except FrameError as error:
        raise Misconduct(MALFORMED, str(error)) from error


async def receive(socket: web.WebSocketResponse) -> bytes | None:
    """What comes next; None when the other side has hung up. Raises `Misconduct`."""
    message = await socket.receive()
    if message.type is aiohttp.WSMsgType.TEXT:
        raise Misconduct(MALFORMED, "frames are binary, this one is text")
    return message.data if message.type is aiohttp.WSMsgType.BINARY else None
