"""One connection to an OpenEnv server: a session is what one connection holds.

Invariants: questions and answers alternate, and nothing else is taken for an answer: whoever stops waiting for one
closes the connection. Somebody listens whenever the policy thinks for longer than `IDLE_S`, so that pings are answered.
One timer sees to that, which is not set anew with each answer: that would cost as much as all else here.
"""

import asyncio
import contextlib
from collections.abc import Mapping

import aiohttp
import orjson

from warren_env_worker.permissions.retries import SessionLost

IDLE_S = 0.5
"""A listener costs a step a task and a turn of the event loop, which quick policies need not pay. Servers wait far longer
for the answer to a ping."""


class SocketLost(SessionLost):
    """The connection is gone, and the session with it."""


class Socket:
    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self._connection = connection
        self._listener: asyncio.Task[aiohttp.WSMessage] | None = None
        """It hears the next answer, too."""
        self._loop = asyncio.get_running_loop()
        self._is_asking = False
        self._silent_since_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._await_silence(IDLE_S)

    async def ask(self, message: Mapping[str, object]) -> str:
        """Raises `SocketLost`."""
        self._is_asking, is_answered = True, False
        try:
            with contextlib.suppress(aiohttp.ClientError, OSError):  # it may have said why
                await self._connection.send_str(orjson.dumps(message).decode())
            heard = await (self._listener or self._connection.receive())
            if heard.type is not aiohttp.WSMsgType.TEXT:
                raise SocketLost
            is_answered = True
            self._listener = None
            return heard.data
        except (aiohttp.ClientError, OSError) as error:
            raise SocketLost from error
        finally:
            self._is_asking = False
            if is_answered:
                self._silent_since_s = self._loop.time()
                if self._timer is None:
                    self._await_silence(IDLE_S)
            else:
                self._stop_listening()

    async def close(self) -> None:
        listener = self._stop_listening()
        if listener is not None:
            await asyncio.wait({listener})  # two must not read at once
        await self._connection.close()

    def _await_silence(self, after_s: float) -> None:
        self._timer = self._loop.call_later(after_s, self._listen_if_silent)

    def _listen_if_silent(self) -> None:
        self._timer = None
        if self._is_asking:  # its answer sets the timer
            return
        rest_s = self._silent_since_s + IDLE_S - self._loop.time()
        if rest_s > 0:
            self._await_silence(rest_s)
        else:
            listening = self._connection.receive()
            self._listener = self._loop.create_task(listening, name="OpenEnv answer")

    def _stop_listening(self) -> asyncio.Task[aiohttp.WSMessage] | None:
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.cancel()
        return self._listener
