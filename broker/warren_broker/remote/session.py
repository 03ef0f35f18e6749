"""One WebSocket of a remote worker, from the gateway's welcome to its end.

Invariants: a call ends with the gateway's answer or with `Lost`, never later than the session;
what comes from the gateway is handed over at once, so that nothing keeps heartbeats waiting.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import aiohttp

from warren_broker.errors import BrokerError, BrokerUnavailable, NotAllowed, Unroutable
from warren_broker.remote.frames import (
    FROM_GATEWAY,
    AnyCall,
    Delivered,
    Done,
    Ended,
    Failed,
    FailureCode,
    FrameError,
    FromGateway,
    FromWorker,
    Welcome,
    pack,
    unpack,
)
from warren_broker.remote.window import Window

log = logging.getLogger(__name__)


CLOSE_S = 2.0
"""How long the other side has to close."""


class Lost(Exception):
    """The session is over; what the call did is unknown."""


class Refused(Exception):
    """The gateway's answer to a call that it did not carry out."""

    def __init__(self, code: FailureCode, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    @property
    def as_error(self) -> BrokerError:
        """The same in the port's words."""
        kinds = {"unroutable": Unroutable, "unavailable": BrokerUnavailable}
        return kinds.get(self.code, NotAllowed if self.code == "not_allowed" else BrokerError)(
            self.message
        )


@dataclass(frozen=True, slots=True)
class Farewell:
    """How a session ended, in the gateway's words where it had any."""

    code: int | None
    reason: str


class Session:
    def __init__(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        welcome: Welcome,
        hand_over: "Callable[[Session, Delivered | Ended, bytes], None]",
    ) -> None:
        self.owner = welcome.owner
        self.window = Window(welcome.max_calls, welcome.max_bytes)
        self.over = asyncio.Event()
        self._socket = socket
        self._hand_over = hand_over
        self._numbers = count(1)
        self._calls: dict[int, asyncio.Future[None]] = {}

    def number(self) -> int:
        """Of the next call."""
        return next(self._numbers)

    async def call(self, call: AnyCall, body: bytes = b"") -> None:
        """Return when the gateway has done it. Raises `Lost`, `Refused`."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls[call.call] = answer
        try:
            await self.say(call, body)
            await answer
        finally:
            del self._calls[call.call]
            if answer.done() and not answer.cancelled():
                answer.exception()  # it may have come while we were still sending

    async def say(self, frame: FromWorker, body: bytes = b"") -> None:
        """Send a frame; waits while the socket is far behind. Raises `Lost`."""
        if self.over.is_set():
            raise Lost("the session is over")
        try:
            await self._socket.send_bytes(pack(frame, body))
        except (aiohttp.ClientError, ConnectionError, RuntimeError) as error:
            raise Lost(str(error)) from error

    async def listen(self) -> Farewell:
        """Take in what comes, until the end."""
        try:
            while True:
                message = await self._socket.receive()
                if message.type is not aiohttp.WSMsgType.BINARY:
                    return self._farewell(message)
                frame, body = unpack(message.data, FROM_GATEWAY)
                self._take(frame, body)
        except FrameError as error:
            log.error("the gateway sent what can't be read: %s", error)
            return Farewell(None, str(error))
        finally:
            self._finish()
            await hang_up(self._socket)

    def _take(self, frame: FromGateway, body: bytes) -> None:
        match frame:
            case Done() | Failed():
                self._answer(frame)
            case Delivered() | Ended():
                self._hand_over(self, frame, body)
            case Welcome():
                raise FrameError("a second welcome")

    def _answer(self, frame: Done | Failed) -> None:
        call = self._calls.get(frame.call)
        if call is None or call.done():
            return  # whoever called has gone
        if isinstance(frame, Failed):
            call.set_exception(Refused(frame.code, frame.message))
        else:
            call.set_result(None)

    def _farewell(self, message: aiohttp.WSMessage) -> Farewell:
        if message.type is aiohttp.WSMsgType.CLOSE:
            return Farewell(message.data, message.extra or "")
        return Farewell(self._socket.close_code, str(self._socket.exception() or "it hung up"))

    def _finish(self) -> None:
        self.over.set()
        for call in self._calls.values():
            if not call.done():
                call.set_exception(Lost("the session ended"))


async def hang_up(socket: aiohttp.ClientWebSocketResponse) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await socket.close()
