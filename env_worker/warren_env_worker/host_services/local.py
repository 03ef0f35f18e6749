"""The host services of an episode that is played in a process of its own: both ends are here.

Invariant: once it is closed nothing of it runs any more, and nothing waits for a next episode.
"""

import contextlib
import socket
from collections.abc import Generator
from concurrent.futures import Future, wait

from warren_env_worker.background_loop import background_loop
from warren_env_worker.host_services.client import EpisodeServices
from warren_env_worker.host_services.server import ServicesServer
from warren_env_worker.permissions.permissions import TRUSTED

CLOSE_S = 30.0


class _Here:
    """Answers in the background loop."""

    def __init__(self) -> None:
        self._server = ServicesServer(n_spares=0)
        self._conversations: list[Future[None]] = []

    def connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._conversations.append(background_loop().submit(self._server.attend(theirs)))
        return ours

    def await_end(self) -> None:
        wait(self._conversations, CLOSE_S)


@contextlib.contextmanager
def offered() -> Generator[EpisodeServices]:
    """For one episode, which may reach whatever this process can."""
    here = _Here()
    host_services = EpisodeServices(here.connect, TRUSTED)
    try:
        yield host_services
    finally:
        host_services.close()
        here.await_end()
