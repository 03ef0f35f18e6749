"""A client of a server that may be busy, away or started anew: its requests, and when they are asked again.

Invariants: what a request that got no good answer is told for is in fixed words (`permissions.service`). A server that says
that it is busy is asked again for as long as the caller may take, one that can't be had for `patience_s`. Which of
its requests may come twice, the protocol knows: it asks by `with_retries`. A request that was answered 503 may have run (a
proxy says so, too, where it lost the server), unless the header of `_STARTING` is there; one that was answered 429 has not.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
import orjson
from pydantic import ValidationError

from warren_env_worker.permissions.retries import RetryLater, with_retries
from warren_env_worker.permissions.service import (
    FAILED,
    MAX_ANSWER_BYTES,
    Service,
    ServiceFailed,
    asked_pause_s,
)

CONNECT_S = 10.0
HEARTBEAT_S = 60.0
"""A socket at whose other end nobody answers is found out after one and a half of them."""
_TOO_MANY, _UNAVAILABLE = 429, 503
_STARTING = ("X-Backend-State", "starting")
"""OpenReward's proxy and servers say so of a request that did not reach the environment."""
_NOT_THERE = (502, 504)
"""A proxy says it."""

ResultT = TypeVar("ResultT")
log = logging.getLogger(__name__)


class RetryingClient:
    """A connection of its own to the server, for one event loop."""

    def __init__(
        self,
        service: Service,
        headers: Mapping[str, str],
        *,
        answer_s: float,
        patience_s: float,
        failure: Callable[[str], Exception],
        traces: Sequence[aiohttp.TraceConfig] = (),
    ) -> None:
        """`failure` makes the protocol's error from what is told of it; `traces` hear of connections."""
        self.url = service.url
        self._service = service
        self._patience_s = patience_s
        self._failure = failure
        self._answer_s = answer_s
        self._client = service.client(headers, _timeout(answer_s), traces)

    async def close(self) -> None:
        await self._client.close()

    def failed(self) -> Exception:
        return self._failure(f"{self.url}: {FAILED}")

    def unreadable(self, what: str, error: ValidationError) -> Exception:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        return self._failure(
            f"{self.url}: the answer to {what or '/'} is not of the protocol: {where}: {first['msg']}"
        )

    async def with_retries(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Asks until there is an answer. Raises the protocol's error, and what `ask` does but `RetryLater`."""
        return await with_retries(ask, self._patience_s, self.failed)

    @asynccontextmanager
    async def response(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        answer_s: float | None = None,
        *,
        expected: Collection[int] = (),
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """One whose status the protocol judges; those of `expected` are no news for the log, as is 200. Raises `RetryLater`, also when it breaks off while it is read."""
        is_there = False
        try:
            self._service.require_address()
            async with self._client.request(
                method,
                self._below(path),
                data=None if body is None else orjson.dumps(body),
                headers={"Content-Type": "application/json", **(headers or {})},
                allow_redirects=False,
                timeout=_timeout(answer_s or self._answer_s),
            ) as response:
                is_there = True
                if response.status not in expected:
                    self._require_now(path, response.status, response.headers)
                yield response
        except ServiceFailed as error:
            raise self.failed() from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.info("%s can't be reached: %s", self.url, type(error).__name__)
            raise RetryLater(is_there=is_there) from error

    async def socket(self, path: str) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket. Raises `RetryLater`, and the protocol's error for a server that won't have one."""
        try:
            self._service.require_address()
            return await self._client.ws_connect(
                self._below(path), max_msg_size=MAX_ANSWER_BYTES, heartbeat=HEARTBEAT_S
            )
        except ServiceFailed as error:
            raise self.failed() from error
        except aiohttp.WSServerHandshakeError as error:
            self._require_now(path, error.status, error.headers or {})
            raise self.failed() from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.info("%s can't be reached: %s", self.url, type(error).__name__)
            raise RetryLater from error

    def _below(self, path: str) -> str:
        return f"{str(self.url).rstrip('/')}/{path}"

    def _require_now(self, path: str, status: int, headers: Mapping[str, str]) -> None:
        if status != 200:
            log.warning("%s answered %s with status %d", self.url, path, status)
        if status in (_TOO_MANY, _UNAVAILABLE):
            name, starting = _STARTING
            is_refused = status == _TOO_MANY or headers.get(name) == starting
            raise RetryLater(is_busy=True, is_refused=is_refused, pause_s=asked_pause_s(headers))
        if status in _NOT_THERE:
            raise RetryLater


def _timeout(answer_s: float) -> aiohttp.ClientTimeout:
    """`answer_s` without a byte are too long."""
    return aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=answer_s)
