"""The aiohttp app, made from the route table."""

import asyncio
import logging
import re
from collections.abc import Coroutine
from functools import partial
from typing import Any

from aiohttp import web

from warren_gateway.api.authorization import admitted, served
from warren_gateway.api.dialects import error_body
from warren_gateway.api.http_server import Runner
from warren_gateway.api.openapi import encoded
from warren_gateway.api.problems import answering_problems
from warren_gateway.api.reading import MAX_BODY_BYTES
from warren_gateway.api.route import Route
from warren_gateway.api.services import Services
from warren_gateway.api.table import ROUTES

IDLE_S = 75.0
"""Longer than proxies keep connections, or they would send requests into closed ones."""

log = logging.getLogger(__name__)


def build_app(services: Services) -> web.Application:
    app = web.Application(
        middlewares=[answering_problems(error_body)], client_max_size=MAX_BODY_BYTES
    )
    for route in ROUTES:
        app.router.add_route(route.method, _pattern(route.path), partial(_serve, route, services))
    app.router.add_route("GET", "/openapi.json", _serve_document)

    async def close_streams(_: web.Application) -> None:
        services.closing.set()
        services.sampler_requests.stop()

    app.on_shutdown.append(close_streams)
    return app


def _pattern(path: str) -> str:
    """No parameter takes the name of another route: `/v1/runs/check` is no run, and takes no GET."""
    begun, pattern = "", ""
    for part in path.split("/")[1:]:
        begun += "/"
        names = "|".join(re.escape(name) for name in _names_after(begun)) if part[0] == "{" else ""
        pattern += f"/{part[:-1]}:(?!(?:{names})(?:/|$))[^{{}}/]+}}" if names else f"/{part}"
        begun += part
    return pattern


def _names_after(begun: str) -> list[str]:
    """The next parts of all paths that begin so, parameters aside."""
    rests = {route.path.removeprefix(begun) for route in ROUTES if route.path.startswith(begun)}
    return sorted({name for rest in rests if (name := rest.partition("/")[0])[:1] != "{"})


def build_runner(services: Services, *, shutdown_s: float, idle_s: float = IDLE_S) -> web.AppRunner:
    """A handler is cancelled when its caller is gone; `_serve` says what that means.

    A connection on which no whole request comes for `idle_s` is closed.
    """
    return Runner(
        build_app(services),
        access_log=None,
        keepalive_timeout=idle_s,
        shutdown_timeout=shutdown_s,
        handler_cancellation=True,
    )


async def _serve(route: Route, services: Services, request: web.Request) -> web.StreamResponse:
    caller = await admitted(route, services, request)
    if (most := route.max_body_bytes(services)) > MAX_BODY_BYTES:
        request = request.clone(client_max_size=most)
    serving = served(route, services, request, caller)
    return await (serving if route.ends_with_client else _finished(serving, services.closing))


async def _finished(
    serving: Coroutine[Any, Any, web.StreamResponse], closing: asyncio.Event
) -> web.StreamResponse:
    """Finish what was begun, unless the gateway stops: a caller that is gone changes nothing."""
    task = asyncio.create_task(serving, name="a request to its end")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if closing.is_set():
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()):
            log.info("a request whose caller is gone failed: %s", error)
        raise


async def _serve_document(_: web.Request) -> web.StreamResponse:
    body = await asyncio.to_thread(encoded)
    return web.Response(body=body, content_type="application/json")
