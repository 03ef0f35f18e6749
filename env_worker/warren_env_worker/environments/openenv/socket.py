"""One connection to an OpenEnv server: a session is what one connection holds.

Invariants: questions and answers alternate, and nothing else is taken for an answer: whoever stops waiting for one
closes the connection. Somebody listens whenever the policy thinks for longer than `IDLE_S`, so that pings are answered.
"""

import asyncio
import contextlib
from collections.abc import Mapping

import aiohttp
import orjson

IDLE_S = 0.5
"""A listener costs a step a task and a turn of the event loop, which quick policies need not pay. Servers wait far longer
for the answer to a ping."""


class SocketLost(Exception):
    """The connection is gone, and the session with it."""


class Socket:
    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self._connection = connection
        self._listener: asyncio.Task[aiohttp.WSMessage] | None = None
        """It hears the next answer, too."""
        self._becomes_idle = self._listen_later()

    async def ask(self, message: Mapping[str, object]) -> str:
        """Raises `SocketLost`."""
        self._becomes_idle.cancel()
        is_answered = False
        try:
            with contextlib.suppress(aiohttp.ClientError, OSError):  # it may have said why
                await self._connection.send_str(orjson.dumps(message).decode())
            heard = await (self._listener or self._connection.receive())
            if heard.type is not aiohttp.WSMsgType.TEXT:
                raise SocketLost
            is_answered = True
            self._listener = None
            self._becomes_idle = self._listen_later()
            return heard.data
        except (aiohttp.ClientError, OSError) as error:
            raise SocketLost from error
        finally:
            if not is_answered and self._listener is not None:
                self._listener.cancel()

    async def close(self) -> None:
        self._becomes_idle.cancel()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait({self._listener})  # two must not read at once
        await self._connection.close()

    def _listen_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(IDLE_S, self._listen)

    def _listen(self) -> None:
        self._listener = asyncio.create_task(self._connection.receive(), name="OpenEnv answer")
