"""A web application that listens, for those who serve environments.

Invariant: what it answers ends with it, within `SHUTDOWN_S`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web

from warren.errors import ConfigurationError

SHUTDOWN_S = 1.0


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int) -> AsyncGenerator[str]:
    """The URL at which it listens while the context lasts. Raises `ConfigurationError`."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    try:
        await _start(runner, host, port)
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/"
    finally:
        await runner.cleanup()


async def _start(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise ConfigurationError(
            f"Nothing can listen at {host}:{port}: {error.strerror}",
            hint="Give another --port, or --host.",
        ) from error
