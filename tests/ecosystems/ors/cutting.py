"""A proxy between client and server, which cuts connections as they carry a call."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

_KEPT = ("Content-Type", "Location", "Retry-After")


@dataclass
class Cutting:
    client: aiohttp.ClientSession
    n_events: int | None
    """After so many events of its answer, the first call's connection is cut. None: no connection is."""
    asked: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """Paths and bodies that came."""
    was_answered_again: asyncio.Event = field(default_factory=asyncio.Event)
    """A call behind the one that was cut has had the first event of its answer."""
    has_answered: defaultdict[tuple[str, int], asyncio.Event] = field(
        default_factory=lambda: defaultdict(asyncio.Event)
    )
    """By path and status: the server has answered so."""
    url: str = ""

    @property
    def calls(self) -> list[Any]:
        return [body for path, body in self.asked if path.endswith("/call")]

    def n_asked(self, path: str) -> int:
        return [each for each, _ in self.asked].count(path)

    async def passed_on(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._passed_on(request)
        except aiohttp.ClientConnectorError:
            return web.Response(status=502)  # the server is not up yet

    async def _passed_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append((request.path, json.loads(body or b"null")))
        headers = {k: v for k, v in request.headers.items() if k.startswith(("X-", "Content-Type"))}
        async with self.client.request(
            request.method, request.path, data=body, headers=headers, allow_redirects=False
        ) as answer:
            self.has_answered[request.path, answer.status].set()
            kept = {key: answer.headers[key] for key in _KEPT if key in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=kept)
            n_calls = len(self.calls) if request.path.endswith("/call") else 0
            if n_calls == 1 and self.n_events is not None:
                return await self._cut(request, response, answer, self.n_events)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
                if n_calls > 1:
                    self.was_answered_again.set()
            await response.write_eof()
            return response

    async def _cut(
        self,
        request: web.Request,
        response: web.StreamResponse,
        answer: aiohttp.ClientResponse,
        n_events: int,
    ) -> web.StreamResponse:
        """The call has begun to run at the server, even if no event goes through."""
        assert request.transport is not None
        events = [await answer.content.readuntil(b"\r\n\r\n") for _ in range(max(n_events, 1))]
        if n_events:
            await response.prepare(request)
            await response.write(b"".join(events[:n_events]))
        request.transport.close()
        return response


@asynccontextmanager
async def cutting(url: str, n_events: int | None) -> AsyncGenerator[Cutting]:
    async with aiohttp.ClientSession(url) as client:
        proxy = Cutting(client, n_events)
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", proxy.passed_on)
        async with TestServer(app) as server:
            proxy.url = str(server.make_url("/"))
            yield proxy
