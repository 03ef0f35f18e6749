"""How much of the machine all sandboxes of a process use at the same time.

Invariants: settings that differ share one allowance: whoever changes a digit of theirs gets no new one. What waits for a
service, or for a cluster to find a node, keeps nobody from starting or running something here.
"""

import asyncio
import os
from collections import defaultdict
from functools import partial
from weakref import WeakKeyDictionary

MAX_STARTS = 8
"""Sessions that start here at the same time: more only make each other slow."""
MAX_REMOTE = 64
"""Sessions that start at a service, or in a cluster, at the same time, and cells that run there; here, as many run as there are cores."""


class Allowance:
    def __init__(self) -> None:
        self._starting = _by_place(MAX_STARTS)
        self._running = _by_place(os.cpu_count() or 1)

    def starting(self, place: str | None) -> asyncio.Semaphore:
        """Of sessions at this service, by scheme, host and port, or in this cluster; None: on this machine."""
        return self._starting[place]

    def running(self, place: str | None) -> asyncio.Semaphore:
        """The same of cells."""
        return self._running[place]


def _by_place(n_here: int) -> defaultdict[str | None, asyncio.Semaphore]:
    places = defaultdict[str | None, asyncio.Semaphore](partial(asyncio.Semaphore, MAX_REMOTE))
    places[None] = asyncio.Semaphore(n_here)
    return places


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Allowance] = WeakKeyDictionary()


def allowance() -> Allowance:
    """Of the running event loop; a process runs sandboxes in one, and one that was forked in its own."""
    loop = asyncio.get_running_loop()
    found = _by_loop.get(loop)
    if found is None:
        found = _by_loop[loop] = Allowance()
    return found
