"""The server that all hosts of a process share: made by the first question, closed with the last host.

Invariants: nothing of sandboxes is loaded before somebody asks for one; what this process's sandboxes have elsewhere, a pod in a
cluster or a container of an engine, is ended with it, as far as that takes no longer than `CLOSE_S`.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from warren_env_worker.background_loop import background_loop

if TYPE_CHECKING:
    from warren_env_worker.host_services.server import ServicesServer

CLOSE_S = 3.0
"""What takes longer is left to whoever clears up next."""

log = logging.getLogger(__name__)


class _Servers:
    def __init__(self) -> None:
        self.n_hosting = 0
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, ServicesServer] = (
            WeakKeyDictionary()
        )
        """A process that was forked has a background loop of its own."""

    @property
    def is_asked(self) -> bool:
        return bool(self._by_loop)

    async def attend(self, connection: socket.socket) -> None:
        """In the background loop."""
        from warren_env_worker.host_services.server import ServicesServer
        from warren_env_worker.sandbox.spares import N_SPARES

        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = ServicesServer(N_SPARES)
        await self._by_loop[loop].attend(connection)

    async def close(self, limit_s: float) -> None:
        """In the background loop; whoever asks later gets another server."""
        server = self._by_loop.pop(asyncio.get_running_loop(), None)
        if server is None:
            return
        try:
            async with asyncio.timeout(limit_s):
                await server.close()
        except TimeoutError:
            log.warning("not all sandboxes have ended within %g s", limit_s)


_servers = _Servers()


@asynccontextmanager
async def hosting_services(limit_s: float = CLOSE_S) -> AsyncGenerator[None]:
    """While somebody hosts; to be left once the children that may ask have ended."""
    _servers.n_hosting += 1
    try:
        yield
    finally:
        _servers.n_hosting -= 1
        if not _servers.n_hosting and _servers.is_asked:
            await background_loop().call(_servers.close(limit_s))


async def attend(connection: socket.socket) -> None:
    """For the background loop: answer what is asked there until the other end has gone."""
    await _servers.attend(connection)
