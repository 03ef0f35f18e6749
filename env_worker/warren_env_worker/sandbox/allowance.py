"""How much of the machine all sandboxes of a process use at the same time.

Invariant: settings that differ share one allowance: whoever changes a digit of theirs gets no new one.
"""

import asyncio
import os
from collections import defaultdict
from functools import partial
from weakref import WeakKeyDictionary

MAX_STARTS = 8
"""Sessions that start at the same time: more only make each other slow."""
MAX_REMOTE = 64
"""Cells that a service, or a cluster, is asked to run at the same time; here, as many run as there are cores."""


class Allowance:
    def __init__(self) -> None:
        self.starting = asyncio.Semaphore(MAX_STARTS)
        self._here = asyncio.Semaphore(os.cpu_count() or 1)
        self._at_services: defaultdict[str, asyncio.Semaphore] = defaultdict(
            partial(asyncio.Semaphore, MAX_REMOTE)
        )

    def running(self, service: str | None) -> asyncio.Semaphore:
        """Of cells that this service runs, by scheme, host and port, or this cluster; None: that this machine runs."""
        return self._here if service is None else self._at_services[service]


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Allowance] = WeakKeyDictionary()


def allowance() -> Allowance:
    """Of the running event loop; a process runs sandboxes in one, and one that was forked in its own."""
    loop = asyncio.get_running_loop()
    found = _by_loop.get(loop)
    if found is None:
        found = _by_loop[loop] = Allowance()
    return found
