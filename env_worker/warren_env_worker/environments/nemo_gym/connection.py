"""The one connection of a session with a resource server, and the cookies that name the session.

A resource server keeps sessions in its memory, and does not say that it lost them: after a restart it takes the same cookie
for the same session, with nothing in it, and a counter goes on from 0. So a session counts as lost once its connection is
gone. Invariants: nothing of a session is sent over a second connection; and of a request that broke off or was answered
502, 503 or 504, nobody knows whether it was carried out, so the session is lost, too. What was answered 429 was not.

A connection that nobody uses is kept open by asking whether the server is alive. Behind a proxy that alone tells one server from the next.
"""

import asyncio
import logging
from http.cookies import Morsel

import aiohttp
from pydantic import ValidationError

from warren_env_worker.environments.nemo_gym.answers import Answer, McpAccess
from warren_env_worker.permissions.retries import MAX_CALL_S, RetryLater, SessionLost
from warren_env_worker.permissions.retrying_client import RetryingClient
from warren_env_worker.permissions.service import Service, content_of

PING_S = 5.0
"""NeMo Gym's servers close a connection that is silent for 30 s; our side does after 15 s."""

log = logging.getLogger(__name__)


class GymFailed(Exception):
    """The server can't be had, failed, or answers what is not of the protocol."""


class Connection:
    """For one event loop."""

    def __init__(self, service: Service, *, patience_s: float) -> None:
        headers = {"Authorization": f"Bearer {service.key}"} if service.key is not None else {}
        opening = aiohttp.TraceConfig()
        opening.on_connection_create_start.append(self._opening)
        self._client = RetryingClient(
            service,
            headers,
            answer_s=MAX_CALL_S,
            patience_s=patience_s,
            failure=GymFailed,
            traces=(opening,),
        )
        self._cookies: dict[str, str] = {}
        self.mcp: McpAccess | None = None
        """Once the session is seeded, if the server offers its tools so."""
        self._is_opened = False
        self._is_lost = False
        self._in_use = asyncio.Lock()
        self._pinging = asyncio.create_task(self._ping(), name="NeMo Gym ping")

    async def close(self) -> None:
        self._pinging.cancel()
        await self._client.close()

    def unreadable(self, what: str, error: ValidationError) -> Exception:
        return self._client.unreadable(what, error)

    async def begin(self, path: str, body: object) -> Answer:
        """The first request, once: a server that is busy may close the connection, so another try needs another one.

        Raises `RetryLater`, `GymFailed`.
        """
        async with self._in_use:
            return await self._once("POST", path, body)

    async def post(self, path: str, body: object) -> Answer:
        """The answer with whatever status, but those of a server that is busy: then it is asked again.

        Raises `GymFailed`, `SessionLost`.
        """
        return await self._client.with_retries(lambda: self._unless_broken("POST", path, body))

    async def _unless_broken(self, method: str, path: str, body: object = None) -> Answer:
        """Raises `RetryLater` where the server says that it is busy."""
        async with self._in_use:
            if self._is_lost:
                raise SessionLost
            try:
                return await self._once(method, path, body)
            except RetryLater as again:
                if again.is_refused:
                    raise
                self._is_lost = True
                raise SessionLost(pause_s=again.pause_s) from again

    async def _once(self, method: str, path: str, body: object) -> Answer:
        named = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        headers = {"Cookie": named} if named else {}
        if self.mcp is not None and path == self.mcp.path:
            headers |= {"Accept": "application/json, text/event-stream", **self.mcp.headers}
        async with self._client.response(method, path, body, headers) as response:
            content = await self._content_of(response)
            self._cookies |= {name: _value(held) for name, held in response.cookies.items()}
            return Answer(response.status, content)

    async def _content_of(self, response: aiohttp.ClientResponse) -> bytes:
        try:
            return await content_of(response)
        except ValueError as error:
            raise GymFailed(f"{self._client.url}: the answer is too long") from error

    async def _opening(self, *_: object) -> None:
        if self._is_opened:
            self._is_lost = True
            raise SessionLost
        self._is_opened = True

    async def _ping(self) -> None:
        """The next request finds out what this one heard."""
        while not self._is_lost:
            await asyncio.sleep(PING_S)
            if self._is_opened and not self._in_use.locked():
                try:
                    await self._unless_broken("GET", "")
                except (RetryLater, SessionLost, GymFailed) as error:
                    log.info("%s: %s on a ping", self._client.url, type(error).__name__)


def _value(held: "Morsel[str]") -> str:
    """As it goes back to the server."""
    return held.coded_value
