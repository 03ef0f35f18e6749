"""A machine that joins the worker of another one (`warren gpu-worker --join`).

It has no broker and holds no model: its processes do what those of the other machine do, and when they end, for
whatever reason, they are started again and wait for the others. Where they end soon again and again, as those of a machine
that is refused do, the pauses between grow.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from warren_broker.backoff import pauses
from warren_broker.worker.child import ChildDied

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
"""Before they are started again; whoever lived longer than the longest pause begins with the first."""

log = logging.getLogger(__name__)


class JoinedProcess(Protocol):
    """A child process, with all that it has started."""

    async def receive(self) -> bytes: ...
    def kill(self) -> None: ...
    async def close(self) -> None: ...


async def stay_joined(
    start: Callable[[], Awaitable[JoinedProcess]],
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Never returns. Cancelled, it takes its processes with it, and with them those of all machines."""
    waits = pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while True:
        started_s = time.monotonic()
        try:
            await _live(await start())
        except (ChildDied, OSError) as error:
            log.warning("what had joined has ended, and joins again: %s", error)
        if time.monotonic() - started_s > _LONGEST_PAUSE_S:
            waits = pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        await pause(next(waits))


async def _live(process: JoinedProcess) -> None:
    """Raises `ChildDied`: it has nothing to say to us."""
    try:
        await process.receive()
    finally:
        process.kill()
        await process.close()
