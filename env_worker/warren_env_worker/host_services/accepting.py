"""The supervisor accepts connections from a child process and from all processes forked from it (`connecting`).

Invariant: what a process was given ends with its last connection, whatever becomes of the process.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager

from warren_env_worker.background_loop import background_loop
from warren_env_worker.host_services.shared import attend

log = logging.getLogger(__name__)


@asynccontextmanager
async def accepting() -> AsyncGenerator[socket.socket]:
    """The end that a child is to inherit; what it and its forks ask for is answered meanwhile."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    answering = asyncio.create_task(_awaiting_news(ours), name="host services")
    try:
        with theirs:
            yield theirs
    finally:
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering


async def _awaiting_news(ours: socket.socket) -> None:
    ours.setblocking(False)
    news = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(ours, news.set)
    try:
        while True:
            await news.wait()
            news.clear()
            for connection in _taken(ours):
                background_loop().submit(attend(connection)).add_done_callback(_tell_trouble)
    finally:
        loop.remove_reader(ours)
        ours.close()


def _taken(ours: socket.socket) -> list[socket.socket]:
    """The connections that wait."""
    taken: list[socket.socket] = []
    with contextlib.suppress(BlockingIOError, ConnectionError):
        while True:
            said, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
            taken += [socket.socket(fileno=descriptor) for descriptor in descriptors]
            if not said:
                break
    return taken


def _tell_trouble(attended: Future[None]) -> None:
    """Who asked is told that the connection was lost."""
    if not attended.cancelled() and (error := attended.exception()) is not None:
        log.error("what an episode asked was given up", exc_info=error)
