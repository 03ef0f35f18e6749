"""A connection that heals by itself.

Invariants:
- `connection` waits until there is one; it raises `BrokerClosed` once the link is closed, and
  nothing else.
- A lost connection is dialled again for ever, with growing pauses; who uses the link retries what was
  under way, since nobody can know what became of it.
- Closing takes at most `close_s`, whatever state the server is in.
- What only looks gets a channel that others look through too. The libraries keep a little of every
  channel for as long as its connection lives: a new one for each look at a queue would add up. What
  gets messages has a channel of its own, at whose end goes back what it left unsettled.

aio-pika's own robust connection is not used: it replays consumers with their first arguments (a
stream would start over), and one consumer that can't be restored keeps all others from coming back.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AuthenticationError, InvalidFrameError, ProbableAuthenticationError
from yarl import URL

from warren_broker.backoff import pauses
from warren_broker.errors import BrokerClosed, BrokerUnavailable
from warren_broker.rabbitmq.connection.closing import Closings
from warren_broker.rabbitmq.connection.failures import Lost, amqp
from warren_broker.rabbitmq.connection.timings import Timings
from warren_broker.rabbitmq.connection.transport import HeldConnection

DIAL_S = 10.0
"""How long one attempt to connect may take."""
CHANNEL_S = 10.0
"""A server that opens no channel within this time is stuck, and the connection is given up."""
CALL_S = 30.0
MOST_IDLE = 4
"""Channels that are kept open for the next look."""

ResultT = TypeVar("ResultT")

log = logging.getLogger(__name__)
# What the libraries tell of a lost connection, tracebacks and all, we say in a sentence.
for _library in ("aiormq", "aio_pika"):
    logging.getLogger(_library).setLevel(logging.CRITICAL)


class Link:
    """One healing connection. `start` it, and `close` it."""

    def __init__(self, url: URL, *, description: str, timings: Timings | None = None) -> None:
        self.timings = timings or Timings()
        self._url = url
        self._description = description
        self._current: HeldConnection | None = None
        self._idle: list[AbstractChannel] = []
        """Open channels of the current connection that nobody uses."""
        self._waiting: set[asyncio.Future[None]] = set()
        self._dropped = asyncio.Event()
        self._why = ""
        """What the current connection was given up for."""
        self._keeping_open: asyncio.Task[None] | None = None
        self._is_closed = False
        self.closings = Closings(self.timings.close_s)
        self.n_connections = 0
        self.connected_s = 0.0
        """On the event loop's clock."""

    async def start(self, *, timeout_s: float) -> None:
        """Connect, trying until `timeout_s` has passed. Raises `BrokerUnavailable`."""
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._dial_until_answered()
        except TimeoutError as error:
            raise BrokerUnavailable(
                f"no answer from {self._description} within {timeout_s:g} s; is it running and is"
                " the address right?"
            ) from error
        self._announce(connection)
        self._keeping_open = asyncio.create_task(
            self._keep(connection), name=f"{self._description} link"
        )

    async def connection(self) -> HeldConnection:
        """The connection, as soon as there is one. Raises `BrokerClosed`."""
        while self._current is None or self._is_closed:
            await self._until_changed()
        return self._current

    async def reconnected(self, n_connections: int) -> int:
        """Wait until there have been more connections than that; how many. Raises `BrokerClosed`."""
        while self.n_connections <= n_connections:
            await self._until_changed()
        return self.n_connections

    async def open_channel(self, *, confirms: bool = False) -> AbstractChannel:
        """A new channel on the connection of the moment. Raises `Lost` and `BrokerClosed`."""
        connection = await self.connection()
        try:
            with amqp():
                transport = connection.transport
                if transport is None:
                    raise Lost("the connection was lost")
                await transport.ready()  # waits while a memory or disk alarm blocks publishers
                async with asyncio.timeout(CHANNEL_S):
                    return await connection.channel(
                        publisher_confirms=confirms, on_return_raises=confirms
                    )
        except Lost as error:
            self.drop_connection(connection, f"it opened no channel ({error})")
            raise

    @asynccontextmanager
    async def channel(self, *, timeout_s: float = CHANNEL_S) -> AsyncGenerator[AbstractChannel]:
        """A channel for a few calls, closed afterwards. Raises `Lost` and `BrokerClosed`."""
        channel = await self.open_channel()
        try:
            with amqp():
                async with asyncio.timeout(timeout_s):
                    yield channel
        finally:
            await self.close_channel(channel)

    async def close_channel(self, channel: AbstractChannel) -> None:
        """Close it, and see it closed if the server answers."""
        await self.closings.close(channel.close())

    @asynccontextmanager
    async def _shared_channel(self, *, timeout_s: float) -> AsyncGenerator[AbstractChannel]:
        """The same, and used again if all went well."""
        channel = self._idle_channel() or await self.open_channel()
        connection, is_well = self._current, False
        try:
            with amqp():
                async with asyncio.timeout(timeout_s):
                    yield channel
            is_well = True
        finally:
            is_well = is_well and connection is self._current and not channel.is_closed
            if is_well and len(self._idle) < MOST_IDLE:
                self._idle.append(channel)
            else:
                self.closings.begin(channel.close())

    def _idle_channel(self) -> AbstractChannel | None:
        while self._idle:
            channel = self._idle.pop()
            if not channel.is_closed:
                return channel
        return None

    async def call(
        self,
        operation: Callable[[AbstractChannel], Awaitable[ResultT]],
        *,
        timeout_s: float = CALL_S,
        only_looks: bool = False,
        attempt_s: float = CHANNEL_S,
    ) -> ResultT:
        """Run `operation`, which may run twice, until the server answers.

        `only_looks`: it leaves nothing on the channel. `attempt_s`: an operation that takes longer is
        begun again. Raises `BrokerUnavailable` after `timeout_s`,
        and what `operation` raises but `Lost`.
        """
        reason = "there is no connection"
        try:
            async with asyncio.timeout(timeout_s):
                for pause_s in pauses():
                    try:
                        opened = self._shared_channel if only_looks else self.channel
                        async with opened(timeout_s=attempt_s) as channel:
                            return await operation(channel)
                    except Lost as error:
                        reason = str(error)
                    await asyncio.sleep(pause_s)
        except TimeoutError:
            pass
        raise BrokerUnavailable(f"{self._description} gave no answer in {timeout_s:g} s: {reason}")

    def drop_connection(self, connection: HeldConnection, why: str) -> None:
        """Give up on a connection that was closed or doesn't answer; another one is dialled."""
        if connection is self._current and not self._dropped.is_set():
            self._why = why
            self._dropped.set()

    async def close(self) -> None:
        """Let go within `close_s`; whoever waits gets `BrokerClosed`."""
        self._is_closed = True
        self._wake_all()
        if self._keeping_open is not None:
            self._keeping_open.cancel()
            await asyncio.wait([self._keeping_open])
        if self._current is not None:
            await self.hang_up(self._current)

    async def _keep(self, connection: HeldConnection) -> None:
        while True:
            await self._dropped.wait()
            self._current = None
            self._idle.clear()
            log.warning(
                "lost the connection to %s: %s; connecting again", self._description, self._why
            )
            await self.hang_up(connection)
            connection = await self._dial_until_answered()
            self._announce(connection)
            log.info("connected to %s again", self._description)

    def _announce(self, connection: HeldConnection) -> None:
        self._dropped.clear()
        self._current = connection

        def closed(_: object, error: object) -> None:
            self.drop_connection(connection, str(error) or repr(error))

        connection.close_callbacks.add(closed)
        self.n_connections += 1
        self.connected_s = asyncio.get_running_loop().time()
        self._wake_all()

    async def _until_changed(self) -> None:
        if self._is_closed:
            raise BrokerClosed(f"the connection to {self._description} was closed")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)

    def _wake_all(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def _dial_until_answered(self) -> HeldConnection:
        waits = pauses()
        while True:
            try:
                return await self.dial()
            except Lost as error:
                log.debug("no connection to %s yet: %s", self._description, error)
            except BrokerUnavailable as error:
                if self.n_connections == 0:
                    raise
                log.warning("%s", error)
            await asyncio.sleep(next(waits))

    async def dial(self) -> HeldConnection:
        """A connection of one's own. Raises `Lost`, and `BrokerUnavailable` when it is refused."""
        connection = HeldConnection(self._url)
        try:
            with amqp():
                await connection.connect(timeout=DIAL_S)
        except BaseException as error:
            await self.hang_up(connection)
            if isinstance(error, Lost):
                raise _explain(error, self._url, self._description) from error.__cause__
            raise
        return connection

    async def hang_up(self, connection: HeldConnection) -> None:
        try:
            with contextlib.suppress(Lost), amqp():
                async with asyncio.timeout(self.timings.close_s):
                    await connection.close()
        finally:
            connection.held.abort()


def _explain(error: Lost, url: URL, description: str) -> Exception:
    """A refusal that trying again can't change, in a sentence; anything else stays `Lost`."""
    if isinstance(error.__cause__, (AuthenticationError, ProbableAuthenticationError)):
        return BrokerUnavailable(f"{description} refused user {url.user!r}: wrong name or password")
    if isinstance(error.__cause__, InvalidFrameError):  # closed where it should have opened
        return BrokerUnavailable(
            f"{description} refused the virtual host {url.path!r}: there is none of that name, or"
            f" user {url.user!r} may not use it"
        )
    return error
