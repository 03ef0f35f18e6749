"""Requests to a server of the protocol.

Invariants: every request may come twice, for episodes have ids of ours and steps have numbers, and the server
answers both as before; so whatever breaks off is asked again. What a server says of an error is told only if it
stands in the answer's `error`, and no other failure is told but in fixed words (`permissions.service`).
"""

from collections.abc import Collection
from typing import TypeVar

import aiohttp
from pydantic import TypeAdapter, ValidationError

from warren.environment import ConfigError
from warren_env_worker.environments.http.answers import Failure
from warren_env_worker.permissions.retries import SessionLost
from warren_env_worker.permissions.retrying_client import RetryingClient
from warren_env_worker.permissions.service import Service, content_of

GONE = (404, 410)
_REFUSED = (400, 422)

AnswerT = TypeVar("AnswerT")


class ServerFailed(Exception):
    """The server can't be had, its environment failed, or what it answers is not of the protocol."""


class EpisodeLost(SessionLost):
    """The server knows no such episode (any more)."""


class EnvServer:
    """A connection of its own to the server, for one event loop."""

    def __init__(self, service: Service, *, patience_s: float, answer_s: float) -> None:
        self.url = service.url
        headers = {"Authorization": f"Bearer {service.key}"} if service.key is not None else {}
        self._client = RetryingClient(
            service, headers, answer_s=answer_s, patience_s=patience_s, failure=ServerFailed
        )

    async def close(self) -> None:
        await self._client.close()

    async def ask(
        self, adapter: TypeAdapter[AnswerT], method: str, path: str = "", body: object = None
    ) -> AnswerT:
        """Raises `ServerFailed`, `EpisodeLost`, and `ConfigError` for what the server refuses."""
        answer = await self._client.with_retries(lambda: self.ask_once(method, path, body))
        try:
            return adapter.validate_json(answer)
        except ValidationError as error:
            raise self._client.unreadable(path, error) from error

    async def ask_once(
        self,
        method: str,
        path: str = "",
        body: object = None,
        *,
        expected: Collection[int] = (),
    ) -> bytes:
        """The answer with status 200; another status that is `expected` is not logged. Raises `RetryLater` besides."""
        async with self._client.response(method, path, body, expected=expected) as response:
            content = await self._content_of(path, response)
            self._require_good(path, response.status, content)
            return content

    async def _content_of(self, path: str, response: aiohttp.ClientResponse) -> bytes:
        try:
            return await content_of(response)
        except ValueError as error:
            raise ServerFailed(f"{self.url}: the answer to {path or '/'} is too long") from error

    def _require_good(self, path: str, status: int, content: bytes) -> None:
        if status == 200:
            return
        if status in GONE and path:
            raise EpisodeLost
        try:
            told = Failure.model_validate_json(content).error
        except ValidationError:
            raise self._client.failed() from None
        if status in _REFUSED:
            raise ConfigRefused(f"{self.url}: {told}")
        raise ServerFailed(f"{self.url}: {told}")


class ConfigRefused(ConfigError):
    """The server refuses what it was asked, and would again: another config or task is needed."""
