"""Requests to a server of the protocol.

Invariants: every request may come twice, for episodes have ids of ours and steps have numbers, and the server
answers both as before; so whatever breaks off is asked again. What a server says of an error is told only if it
stands in the answer's `error`, and no other failure is told but in fixed words (`reach.service`).
"""

import logging
from typing import TypeVar

import aiohttp
import orjson
from pydantic import TypeAdapter, ValidationError

from warren.environment import ConfigError
from warren_env_worker.environments.http.answers import Failure
from warren_env_worker.reach.asking import AskAgain, patiently
from warren_env_worker.reach.service import (
    FAILED,
    Service,
    ServiceFailed,
    asked_pause_s,
    content_of,
)

CONNECT_S = 10.0
_BUSY = (429, 503)
_NOT_THERE = (502, 504)
"""A proxy says it."""
_GONE = (404, 410)
_REFUSED = (400, 422)

AnswerT = TypeVar("AnswerT")
log = logging.getLogger(__name__)


class ServerFailed(Exception):
    """The server can't be had, its environment failed, or what it answers is not of the protocol."""


class EpisodeLost(Exception):
    """The server knows no such episode (any more)."""


class EnvServer:
    """A connection of its own to the server, for one event loop."""

    def __init__(self, service: Service, *, patience_s: float, answer_s: float) -> None:
        self.url = service.url
        self._service = service
        self._patience_s = patience_s
        headers = {"Authorization": f"Bearer {service.key}"} if service.key is not None else {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=answer_s)
        self._client = service.client(headers, timeout)

    async def close(self) -> None:
        await self._client.close()

    async def ask(
        self, adapter: TypeAdapter[AnswerT], method: str, path: str = "", body: object = None
    ) -> AnswerT:
        """Raises `ServerFailed`, `EpisodeLost`, and `ConfigError` for what the server refuses."""
        answer = await patiently(
            lambda: self.ask_once(method, path, body), self._patience_s, self._failed
        )
        try:
            return adapter.validate_json(answer)
        except ValidationError as error:
            raise self._unreadable(path, error) from error

    async def ask_once(self, method: str, path: str = "", body: object = None) -> bytes:
        """The answer with status 200. Raises `AskAgain` besides."""
        is_there = False
        try:
            self._service.require_address()
            async with self._client.request(
                method,
                f"{str(self.url).rstrip('/')}/{path}",
                data=None if body is None else orjson.dumps(body),
                headers={"Content-Type": "application/json"},
                allow_redirects=False,
            ) as response:
                is_there = True
                content = await self._content_of(path, response)
                self._require_good(path, response, content)
                return content
        except ServiceFailed as error:
            raise self._failed() from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.info("%s can't be had: %s", self.url, type(error).__name__)
            raise AskAgain(is_there=is_there) from error

    async def _content_of(self, path: str, response: aiohttp.ClientResponse) -> bytes:
        try:
            return await content_of(response)
        except ValueError as error:
            raise ServerFailed(f"{self.url}: the answer to {path or '/'} is too long") from error

    def _require_good(self, path: str, response: aiohttp.ClientResponse, content: bytes) -> None:
        status = response.status
        if status == 200:
            return
        if status in _GONE and path:
            raise EpisodeLost
        log.warning("%s answered %s with status %d", self.url, path, status)
        if status in _BUSY:
            raise AskAgain(is_busy=True, pause_s=asked_pause_s(response))
        if status in _NOT_THERE:
            raise AskAgain
        try:
            told = Failure.model_validate_json(content).error
        except ValidationError:
            raise self._failed() from None
        if status in _REFUSED:
            raise ConfigRefused(f"{self.url}: {told}")
        raise ServerFailed(f"{self.url}: {told}")

    def _failed(self) -> ServerFailed:
        return ServerFailed(f"{self.url}: {FAILED}")

    def _unreadable(self, path: str, error: ValidationError) -> ServerFailed:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        return ServerFailed(
            f"{self.url}: the answer to {path or '/'} is not of the protocol: {where}: {first['msg']}"
        )


class ConfigRefused(ConfigError):
    """The server refuses what it was asked, and would again: another config or task is needed."""
