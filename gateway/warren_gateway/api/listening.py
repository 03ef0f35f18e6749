"""The address at which a gateway listens."""

import errno
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web

from warren_gateway.api.app import build_runner
from warren_gateway.api.services import Services
from warren_gateway.settings import GatewaySettings

SHUTDOWN_S = 2.0
"""How long requests under way may take to end."""


class CannotListen(Exception):
    """The address can't be listened at; says which and what to do."""


class PortInUse(CannotListen):
    def __init__(self, settings: GatewaySettings) -> None:
        super().__init__(
            f"port {settings.port} on {settings.host} is in use; stop who listens there, or choose"
            " another one with --port"
        )


@asynccontextmanager
async def listening(services: Services, settings: GatewaySettings) -> AsyncGenerator[web.AppRunner]:
    """The HTTP server. Raises `CannotListen`."""
    runner = build_runner(services, shutdown_s=SHUTDOWN_S)
    await runner.setup()
    try:
        await _listen(runner, settings)
        yield runner
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, settings: GatewaySettings) -> None:
    try:
        await web.TCPSite(runner, settings.host, settings.port).start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(settings) from error
        where = f"{settings.host}:{settings.port}"
        raise CannotListen(f"can't listen at {where}: {error.strerror or error}") from error
