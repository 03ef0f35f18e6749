"""One HTTP conversation with a gateway: requests out, typed answers or typed errors back.

Invariants: every request has a deadline; only what may safely be repeated is repeated (reads, and
posts that the gateway makes idempotent); redirects are not followed, so the API key goes nowhere
but to the address it was given for.
"""

import asyncio
import io
import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
from pydantic import BaseModel, ValidationError

from warren.connection.answers import describe_failure, problem_error
from warren.connection.backoff import BACKOFF, Backoff
from warren.errors import AuthenticationError, GatewayBusy, GatewayError, GatewayUnreachable
from warren.settings import Settings
from warren_schemas.codec.set_fields import set_fields_json

log = logging.getLogger(__name__)

ModelT = TypeVar("ModelT", bound=BaseModel)

CONNECT_S = 5.0
LONG_S = 600.0
SILENCE_S = 60.0
"""An event stream that brings nothing for this long, not even a ping, counts as lost."""
_HOW_TO_GET_A_KEY = {
    True: "Set WARREN_API_KEY, or start a gateway here with `warren up`: it makes a key.",
    False: "Set WARREN_API_KEY to a key of yours there; an admin makes one with `warren users add NAME`, or for a user"
    " who is there already with `warren keys create --user NAME`.",
}
_HOW_TO_REACH_ONE = {
    True: "Start one with `warren up`, or set WARREN_URL; `warren doctor` finds out more.",
    False: "Look whether it runs there, and listens to other machines (`warren up --host 0.0.0.0`), or set WARREN_URL;"
    " `warren doctor` finds out more.",
}
"""By whether it is to be on this machine."""


class Transport:
    """Opens with `async with`; `timeout_s` bounds one try, `retry_s` all tries of one request.

    `backoff` says how long whoever uses it waits between two tries.
    """

    def __init__(
        self, settings: Settings, *, timeout_s: float, retry_s: float, backoff: Backoff = BACKOFF
    ) -> None:
        self.settings = settings
        self.backoff = backoff
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._session: aiohttp.ClientSession | None = None

    def another(self, *, retry_s: float) -> "Transport":
        """To the same gateway; for another event loop."""
        return Transport(
            self.settings, timeout_s=self._timeout_s, retry_s=retry_s, backoff=self.backoff
        )

    async def open(self) -> None:
        # Proxies of the environment are for the world outside, not for this machine's own gateway.
        is_local = _is_local(self.settings.url)
        self._session = aiohttp.ClientSession(trust_env=not is_local)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(self, path: str, answer: type[ModelT], *, needs_key: bool = True) -> ModelT:
        """Raises `GatewayUnreachable`, or the `GatewayError` that the answer stands for."""
        return await self._repeat("GET", path, answer, None, needs_key)

    async def post(self, path: str, answer: type[ModelT], body: BaseModel | None = None) -> ModelT:
        """Like `get`. Only for what the gateway treats as the same when it comes twice."""
        return await self._repeat("POST", path, answer, body, True)

    async def post_bytes(self, path: str, answer: type[ModelT], data: bytes) -> ModelT:
        """Like `post`, of a body that is no JSON."""
        return await self._repeat("POST", path, answer, data, True)

    async def post_long(self, path: str, answer: type[ModelT], body: BaseModel) -> ModelT:
        """Like `post`, for what the gateway takes long for: one try may take `LONG_S`."""
        return await self._repeat("POST", path, answer, body, True, timeout_s=LONG_S)

    async def post_once(
        self, path: str, answer: type[ModelT], body: BaseModel | None = None
    ) -> ModelT:
        """Like `post`, for what the gateway would do again if it came twice: it is not tried again."""
        return await self._once("POST", path, answer, body, True)

    @asynccontextmanager
    async def stream(self, path: str, *, after: int | None) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The chunks of an event stream that goes on after the event with this id."""
        headers = self._headers(needs_key=True) | {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=SILENCE_S)
        async with self._request("GET", path, headers, None, limits) as response:
            if response.content_type != "text/event-stream":
                raise GatewayError(f"{response.url} answered {response.content_type}, no events")
            yield response.content.iter_any()

    @asynccontextmanager
    async def lines(self, path: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The lines of an answer of JSON lines; empty ones show that the gateway is still there."""
        headers = self._headers(needs_key=True) | {"Accept": "application/x-ndjson"}
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=SILENCE_S)
        async with self._request("GET", path, headers, None, limits) as response:
            if response.content_type != "application/x-ndjson":
                raise GatewayError(f"{response.url} answered {response.content_type}, no lines")
            yield _lines(response.content.iter_any())

    @asynccontextmanager
    async def chunks(self, path: str, *, etag: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The bytes of a file, as they come. Raises `GatewayError` where it is not the one with this ETag."""
        headers = self._headers(needs_key=True) | {"Accept": "application/octet-stream"}
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=SILENCE_S)
        async with self._request("GET", path, headers, None, limits) as response:
            if response.content_type != "application/octet-stream":
                raise GatewayError(f"{response.url} answered {response.content_type}, no file")
            if response.headers.get("ETag") != f'"{etag}"':
                raise GatewayError(
                    f"{response.url.path} is another file by now",
                    hint="Something else was saved under this name; try again.",
                )
            yield response.content.iter_any()

    async def _repeat(
        self,
        method: str,
        path: str,
        answer: type[ModelT],
        body: BaseModel | bytes | None,
        needs_key: bool,
        *,
        timeout_s: float | None = None,
    ) -> ModelT:
        deadline = time.monotonic() + self._retry_s
        for delay_s in self.backoff.delays():
            try:
                return await self._once(method, path, answer, body, needs_key, timeout_s=timeout_s)
            except (GatewayUnreachable, GatewayBusy) as error:
                wait_s = max(delay_s, getattr(error, "retry_after_s", None) or 0.0)
                if time.monotonic() + wait_s >= deadline:
                    raise
                log.debug("%s %s: %s; again in %.1f s", method, path, error.message, wait_s)
            await asyncio.sleep(wait_s)
        raise AssertionError("delays() never ends")

    async def _once(
        self,
        method: str,
        path: str,
        answer: type[ModelT],
        body: BaseModel | bytes | None,
        needs_key: bool,
        *,
        timeout_s: float | None = None,
    ) -> ModelT:
        headers = self._headers(needs_key=needs_key) | {"Accept": "application/json"}
        limits = aiohttp.ClientTimeout(total=timeout_s or self._timeout_s, connect=CONNECT_S)
        data = set_fields_json(body) if isinstance(body, BaseModel) else body
        if data is not None:
            is_json = isinstance(body, BaseModel)
            headers["Content-Type"] = "application/json" if is_json else "application/octet-stream"
        async with self._request(method, path, headers, data, limits) as response:
            text = await response.content.read()
            try:
                return answer.model_validate_json(text)
            except ValidationError as error:
                raise describe_failure(str(response.url), response.status, error) from error

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        data: bytes | None,
        limits: aiohttp.ClientTimeout,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """A response with a good status; everything else as one of our errors."""
        if self._session is None:
            raise RuntimeError("this client is closed; use it inside `async with warren.connect()`")
        body = None if data is None else io.BytesIO(data)  # read in parts, however large it is
        try:
            async with self._session.request(
                method, self.settings.url + path, headers=headers, data=body, timeout=limits,
                allow_redirects=False,
            ) as response:  # fmt: skip
                if response.status >= 300:
                    raise problem_error(
                        str(response.url), response.status, response.headers, await response.read()
                    )
                yield response
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise self._unreachable(error) from error

    def _headers(self, *, needs_key: bool) -> dict[str, str]:
        key = self.settings.api_key
        if key is None and needs_key:
            raise AuthenticationError(
                f"No API key for {self.settings.url} ({self.settings.key_source})",
                hint=_HOW_TO_GET_A_KEY[_is_local(self.settings.url)],
            )
        return {"Authorization": f"Bearer {key}"} if key is not None else {}

    def _unreachable(self, error: Exception) -> GatewayUnreachable:
        url = self.settings.url
        if isinstance(error, aiohttp.ClientConnectorError):
            message = f"No gateway answers at {url}: {_reason(error.os_error)}"
        elif isinstance(error, TimeoutError):
            message = f"The gateway at {url} gave no answer in time"
        else:
            message = f"Lost the connection to the gateway at {url}"
        return GatewayUnreachable(message, hint=_HOW_TO_REACH_ONE[_is_local(url)])


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Cut chunks into lines, of any length; what follows the last line end is not one."""
    rest: list[bytes] = []
    async for chunk in chunks:
        head, *lines = chunk.split(b"\n")
        rest.append(head)
        for line in lines:
            yield b"".join(rest)
            rest = [line]


def _is_local(url: str) -> bool:
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


def _reason(error: OSError) -> str:
    if error.errno is not None and error.errno > 0:  # a resolver's numbers are negative
        return os.strerror(error.errno).lower()
    return error.strerror or str(error)
