"""A machine that lends its devices to the worker of another one (`warren gpu-worker --join`).

It has no broker and holds no model: its processes do what those of the other machine do, and when they end, for
whatever reason, they are started again and wait for the others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from warren_broker.worker.child import ChildDied

_AGAIN_S = 1.0
"""Before they are started again."""

log = logging.getLogger(__name__)


class Lent(Protocol):
    """A child process, with all that it has started."""

    async def receive(self) -> bytes: ...
    def kill(self) -> None: ...
    async def close(self) -> None: ...


async def lend(start: Callable[[], Awaitable[Lent]]) -> None:
    """Never returns. Cancelled, it takes its processes with it, and with them those of all machines."""
    while True:
        try:
            await _live(await start())
        except (ChildDied, OSError) as error:
            log.warning("what was lent has ended, and joins again: %s", error)
        await asyncio.sleep(_AGAIN_S)


async def _live(lent: Lent) -> None:
    """Raises `ChildDied`: it has nothing to say to us."""
    try:
        await lent.receive()
    finally:
        lent.kill()
        await lent.close()
