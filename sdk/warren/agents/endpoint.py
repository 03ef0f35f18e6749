"""The HTTP server that agents call: one for each event loop that hosts them, on this machine's own address.

A call of one of the agent's `other_models` is passed on; any other one is a turn of the policy. Invariants: a key belongs to one episode and stands for it; any other key is refused, and that of an episode
that has ended is told so. Whoever hangs up leaves its question to be asked again.
"""

import asyncio
import hashlib
import secrets
import socket
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import cast

import orjson
from aiohttp import web
from pydantic import JsonValue, ValidationError

from warren.agents.conversation import Answer
from warren.agents.dialects.anthropic import AnthropicDialect
from warren.agents.dialects.chat import ChatDialect
from warren.agents.dialects.dialect import Body, Dialect, Refusal, Telling
from warren.agents.dialects.responses import ResponsesDialect
from warren.agents.dialects.tokens import TokensDialect
from warren.agents.forwarding import Forwarder
from warren.agents.live import MODEL, EpisodeOver, LiveAgent, Repeat
from warren_schemas.text.explain import explain

HOST = "127.0.0.1"
MAX_BODY_BYTES = 32 * 1024**2
_MAX_ENDED = 4096
_DIALECTS: tuple[Dialect, ...] = (
    ChatDialect(),
    ResponsesDialect(),
    AnthropicDialect(),
    TokensDialect(),
)


class Endpoint:
    """Serves from `start` to `stop`, on one event loop."""

    def __init__(self) -> None:
        self._live: dict[str, LiveAgent] = {}
        self._ended: deque[str] = deque(maxlen=_MAX_ENDED)
        self._runner: web.AppRunner | None = None
        self._forwarder = Forwarder()
        self.address = ""
        """Of its root, without a slash at the end."""

    async def start(self) -> None:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        for dialect in _DIALECTS:
            for path in dialect.paths:
                app.router.add_post(path, _handler(self, dialect))
        app.router.add_get("/v1/models", self._models)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0)
        await site.start()
        self.address = f"http://{HOST}:{runner.addresses[0][1]}"
        self._runner = runner

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        await self._forwarder.stop()

    @asynccontextmanager
    async def also_at(self, listener: socket.socket) -> AsyncGenerator[None]:
        """Answer there as well, until the context is left; the socket is ours, and may belong to another network."""
        assert self._runner is not None
        site = web.SockSite(self._runner, listener)
        await site.start()
        try:
            yield
        finally:
            await site.stop()

    def open(self, live: LiveAgent) -> str:
        """The key of an agent that is live now."""
        key = f"wep_{secrets.token_urlsafe(24)}"
        self._live[key] = live
        return key

    def close(self, key: str, reason: str) -> None:
        """Its episode is over."""
        live = self._live.pop(key, None)
        if live is not None:
            live.end(reason)
            self._ended.append(key)

    async def answer(self, request: web.Request, dialect: Dialect) -> web.StreamResponse:
        try:
            live = self._agent(request)
            body = await request.read()
            asked = _parsed(body)
            other = live.other_models.get(str(asked.get("model")))
            if other is not None:
                return await self._forwarder.pass_on(request, dialect.paths[0], asked, other)
            telling = dialect.read(asked, live)
            answer = await live.ask(telling.question, _repeat(request, body))
        except Refusal as refusal:
            return _refused(dialect, refusal)
        except ValidationError as error:
            return _refused(dialect, Refusal(400, "; ".join(explain(error))))
        except EpisodeOver as over:
            return _refused(dialect, Refusal(410, str(over), "episode_over"))
        if telling.is_streamed:
            return await _streamed(request, telling, answer)
        return _json(telling.whole(answer))

    async def _models(self, request: web.Request) -> web.StreamResponse:
        try:
            names = [MODEL, *self._agent(request).other_models]
        except Refusal as refusal:
            return _refused(_DIALECTS[0], refusal)
        models: list[JsonValue] = [
            {"id": name, "object": "model", "created": 0, "owned_by": "warren"} for name in names
        ]
        return _json({"object": "list", "data": models})

    def _agent(self, request: web.Request) -> LiveAgent:
        """Whose key it is. Raises `Refusal`."""
        key = _key(request.headers)
        if (live := self._live.get(key)) is not None:
            return live
        if key in self._ended:
            raise Refusal(410, "the episode of this key has ended", "episode_over")
        raise Refusal(401, "this key belongs to no episode that is live here", "invalid_api_key")


def _handler(
    endpoint: Endpoint, dialect: Dialect
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await endpoint.answer(request, dialect)

    return handle


def _key(headers: Mapping[str, str]) -> str:
    return headers.get("x-api-key") or headers.get("Authorization", "").removeprefix("Bearer ")


def _parsed(body: bytes) -> Body:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"the body is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise Refusal(400, "the body must be a JSON object")
    return cast("Body", value)


def _repeat(request: web.Request, body: bytes) -> Repeat:
    digest = hashlib.blake2b(request.path.encode() + b"\0" + body, digest_size=16).digest()
    is_retry = request.headers.get("x-stainless-retry-count", "0") != "0"
    return Repeat(digest, request.headers.get("Idempotency-Key"), is_retry)


def _json(body: Body, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


async def _streamed(request: web.Request, telling: Telling, answer: Answer) -> web.StreamResponse:
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    for name, data in telling.events(answer):
        event = f"event: {name}\n" if name is not None else ""
        await response.write(f"{event}data: {data}\n\n".encode())
    await response.write_eof()
    return response


def _refused(dialect: Dialect, refusal: Refusal) -> web.Response:
    body = dialect.error(refusal.status, refusal.code, refusal.message)
    return _json(body, refusal.status)


class _Holder(threading.local):
    """The endpoint of the event loop that a thread runs; a forked process has its own."""

    def __init__(self) -> None:
        self._endpoint: Endpoint | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Lock | None = None

    async def get(self) -> Endpoint:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # the first one of this thread, or of this process
            self._loop, self._endpoint, self._starting = loop, None, asyncio.Lock()
        assert self._starting is not None
        async with self._starting:
            if self._endpoint is None:
                endpoint = Endpoint()
                await endpoint.start()
                self._endpoint = endpoint
            return self._endpoint

    async def stop(self) -> None:
        if self._endpoint is not None and self._loop is asyncio.get_running_loop():
            await self._endpoint.stop()
            self._endpoint = None


_holder = _Holder()


async def endpoint() -> Endpoint:
    """The one of this event loop, which serves from now on."""
    return await _holder.get()


async def stop_endpoint() -> None:
    """Let go of its address; whoever needs it later gets another one."""
    await _holder.stop()
