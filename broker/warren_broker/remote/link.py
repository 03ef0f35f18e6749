"""The link to a gateway: one session after another, for as long as the worker lives.

Invariants: at most one session at a time; a new one begins after a growing pause, wherever the
address leads by then; what was declared is declared again before anybody may use the new one. A key
that is no longer accepted ends the link for good, and everybody who waits for it learns why.
"""

import asyncio
import logging
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp

from warren_broker.backoff import pauses
from warren_broker.errors import BrokerClosed, BrokerError, BrokerUnavailable, NotAllowed
from warren_broker.remote.frames import (
    FROM_GATEWAY,
    HEARTBEAT_S,
    MAX_FRAME_BYTES,
    PATH,
    PROTOCOL,
    REFUSALS,
    WORKER_HEADER,
    Declare,
    Delivered,
    Ended,
    FrameError,
    Hello,
    Welcome,
    pack,
    ref_of,
    unpack,
)
from warren_broker.remote.session import Farewell, Lost, Refused, Session, hang_up
from warren_broker.topology import Address

CONNECT_S = 10.0
DECLARE_S = 30.0
CALM_S = 5.0
"""A session that lasted this long was no fluke: the next one may begin at once."""
_HTTP_REFUSALS = {
    400: "it takes no WebSocket there; is a proxy in between that doesn't pass them on?",
    401: "it does not accept this API key",
    403: "this API key may not connect workers",
    404: "there is no gateway that takes remote workers",
    426: "it takes no WebSocket there; is a proxy in between that doesn't pass them on?",
}
_HTTP_DELAYS = {
    429: "it has as many remote env workers already as it takes, of you or of all users"
}

log = logging.getLogger(__name__)


class FrameReceiver(Protocol):
    """Who takes what the gateway delivers for one consumer."""

    def deliver(self, session: Session, frame: Delivered, body: bytes) -> None: ...
    def end_of_queue(self, error: str | None) -> None: ...


class Link:
    def __init__(
        self, url: str, api_key: str, worker: str, *, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        self._heartbeat_s = heartbeat_s
        self.description = f"the gateway at {url}"
        self.takers: dict[int, FrameReceiver] = {}
        self.declared: dict[Address, None] = {}
        self._url = url + PATH
        self._headers = {"Authorization": f"Bearer {api_key}", WORKER_HEADER: worker}
        self._worker = worker
        self._http: aiohttp.ClientSession | None = None
        self._current: Session | None = None
        self._owner: str | None = None
        self._error: BrokerError | None = None
        self._why_not = "it gave no answer"
        self._changed = asyncio.Event()
        self._keeping_open: asyncio.Task[None] | None = None

    @property
    def owner(self) -> str:
        """Whose key it is; known once the link has started."""
        assert self._owner is not None
        return self._owner

    async def start(self, timeout_s: float) -> None:
        """Raises `BrokerUnavailable` when no gateway answers in time, `NotAllowed`."""
        # Proxies of the environment are for the world outside, not for this machine's own gateway.
        is_local = urlsplit(self._url).hostname in ("localhost", "127.0.0.1", "::1")
        self._http = aiohttp.ClientSession(headers=self._headers, trust_env=not is_local)
        self._keeping_open = asyncio.create_task(self._keep(), name=f"link of {self._worker}")
        self._keeping_open.add_done_callback(self._kept)
        try:
            async with asyncio.timeout(timeout_s):
                await self.session()
        except TimeoutError as error:
            raise BrokerUnavailable(
                f"no answer from {self.description}: {self._why_not}"
            ) from error

    async def session(self) -> Session:
        """The one under way, or the next one. Raises why there will be none."""
        while True:
            if self._error is not None:
                raise type(self._error)(*self._error.args)
            if self._current is not None and not self._current.over.is_set():
                return self._current
            await self._changed.wait()

    async def close(self) -> None:
        self._fail(BrokerClosed(f"the link of {self._worker} to its gateway was closed"))
        if self._keeping_open is not None:
            self._keeping_open.cancel()
            await asyncio.wait([self._keeping_open])
        if self._http is not None:
            await self._http.close()

    async def _keep(self) -> None:
        waits = pauses()
        loop = asyncio.get_running_loop()
        while self._error is None:
            begun_s = loop.time()
            try:
                self._part(await self._converse())
            except NotAllowed as error:
                self._fail(error)
            except (aiohttp.ClientError, OSError, TimeoutError, FrameError, Lost) as error:
                self._why_not = str(error) or "it gave no answer in time"
                log.debug("not connected to %s: %s", self.description, self._why_not)
            if loop.time() - begun_s > CALM_S:
                waits = pauses()
            await asyncio.sleep(next(waits))

    async def _converse(self) -> Farewell:
        session = await self._open()
        listening = asyncio.create_task(session.listen(), name=f"listen for {self._worker}")
        try:
            await self._declare_again(session)
            if self._owner is not None:
                log.info("%s is connected to %s", self._worker, self.description)
            self._owner = session.owner
            self._current = session
            self._wake()
            return await asyncio.shield(listening)
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    async def _open(self) -> Session:
        """Connect and be welcomed. Raises `NotAllowed`, or whatever else went wrong."""
        assert self._http is not None
        async with asyncio.timeout(CONNECT_S):
            try:
                socket = await self._http.ws_connect(
                    self._url,
                    heartbeat=self._heartbeat_s,
                    max_msg_size=MAX_FRAME_BYTES,
                )
            except aiohttp.WSServerHandshakeError as error:
                raise self._turned_away(error) from error
            try:
                return Session(socket, await self._welcomed(socket), self._hand_over)
            except BaseException:
                await hang_up(socket)
                raise

    async def _welcomed(self, socket: aiohttp.ClientWebSocketResponse) -> Welcome:
        await socket.send_bytes(pack(Hello(protocol=PROTOCOL, worker=self._worker)))
        message = await socket.receive()
        if message.type is not aiohttp.WSMsgType.BINARY:
            self._part(Farewell(socket.close_code, message.extra or ""))
            raise Lost(message.extra or "the gateway hung up")
        welcome, _ = unpack(message.data, FROM_GATEWAY)
        if not isinstance(welcome, Welcome):
            raise FrameError(f"expected a welcome, got {welcome.kind}")
        if self._owner not in (None, welcome.owner):
            raise NotAllowed("this API key belongs to somebody else now")
        return welcome

    def _turned_away(self, error: aiohttp.WSServerHandshakeError) -> Exception:
        """A gateway that was there before may be behind a proxy that has not found it again."""
        reasons = _HTTP_REFUSALS | _HTTP_DELAYS
        reason = reasons.get(error.status, f"HTTP status {error.status}")
        is_final = error.status in (401, 403) or (
            self._owner is None and error.status in _HTTP_REFUSALS
        )
        if is_final:
            return NotAllowed(f"{self.description} refuses: {reason}")
        return Lost(reason)

    def _part(self, farewell: Farewell) -> None:
        """The session has ended. Raises `NotAllowed` when another one would end alike."""
        if farewell.code in REFUSALS:
            raise NotAllowed(f"{self.description} refuses: {farewell.reason}")
        self._why_not = farewell.reason
        log.warning("%s lost %s: %s", self._worker, self.description, farewell.reason or "hung up")

    async def _declare_again(self, session: Session) -> None:
        async with asyncio.timeout(DECLARE_S):
            for address in list(self.declared):
                try:
                    ref = ref_of(address)
                    await session.call(Declare(call=session.number(), address=ref))
                except Refused as refused:
                    log.debug("%s not declared again: %s", address.name, refused.message)

    def _hand_over(self, session: Session, frame: Delivered | Ended, body: bytes) -> None:
        taker = self.takers.get(frame.consumer)
        if taker is None:
            return  # it left; what was under way to it goes back
        if isinstance(frame, Delivered):
            taker.deliver(session, frame, body)
        else:
            taker.end_of_queue(frame.error)

    def _fail(self, error: BrokerError) -> None:
        if self._error is None:
            self._error = error
            self._wake()

    def _kept(self, task: "asyncio.Task[None]") -> None:
        """Nobody must wait for a link that nothing keeps any more."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("the link broke", exc_info=error)
            self._fail(BrokerError(f"the link to {self.description} broke: {error!r}"))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
