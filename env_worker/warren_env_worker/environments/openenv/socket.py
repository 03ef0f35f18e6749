"""One connection to an OpenEnv server: a session is what one connection holds.

Invariants: questions and answers alternate, and nothing else is taken for an answer: whoever stops waiting for one
closes the connection. Somebody listens at all times, so that pings are answered while the policy thinks.
"""

import asyncio
import contextlib
from collections.abc import Mapping

import aiohttp
import orjson


class SocketLost(Exception):
    """The connection is gone, and the session with it."""


class Socket:
    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self._connection = connection
        self._heard = self._listening()

    async def ask(self, message: Mapping[str, object]) -> str:
        """Raises `SocketLost`."""
        is_answered = False
        try:
            with contextlib.suppress(aiohttp.ClientError, OSError):  # it may have said why
                await self._connection.send_str(orjson.dumps(message).decode())
            heard = await self._heard
            if heard.type is not aiohttp.WSMsgType.TEXT:
                raise SocketLost
            is_answered = True
            self._heard = self._listening()
            return heard.data
        except (aiohttp.ClientError, OSError) as error:
            raise SocketLost from error
        finally:
            if not is_answered:
                self._heard.cancel()

    async def close(self) -> None:
        self._heard.cancel()
        await asyncio.wait({self._heard})  # two must not read at once
        await self._connection.close()

    def _listening(self) -> "asyncio.Task[aiohttp.WSMessage]":
        return asyncio.create_task(self._connection.receive(), name="OpenEnv answer")
