"""Health: can this gateway do its work? Asked without a key, so it names no address."""

from functools import cache
from importlib.metadata import version

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_schemas.http import Health

_WORDS = {True: "ok", False: "unavailable"}


@cache
def installed_version() -> str:
    return version("warren-rl")


async def show_health(call: Call[Nothing]) -> web.StreamResponse:
    """503 without the store; without the broker work waits, and the gateway still answers."""
    has_broker = await call.services.broker_probe.is_well()
    has_store = await call.services.store_probe.is_well()
    status = "degraded" if has_store else "unavailable"
    health = Health(
        status="ok" if has_store and has_broker else status,
        version=installed_version(),
        broker=_WORDS[has_broker],
        store=_WORDS[has_store],
    )
    return reply(health, status=200 if has_store else 503)


ROUTES = (
    Route(
        "GET",
        "/healthz",
        show_health,
        takes=Nothing,
        answers=Health,
        summary="Show the gateway's health; 503 while its store is unavailable",
        scope="public",
        errors=(422,),
    ),
)
