"""What this process has taken, and what a process that plays many episodes may take.

A shared process over its limit is replaced, before memory runs out: whose episode took it can't be
told, so nobody is to blame. What would take it over twice the limit gets a `MemoryError`.
"""

import os
import resource
from collections.abc import Callable

MIB = 1024 * 1024
_PAGE_BYTES = resource.getpagesize()
_DATA = 5
"""Field of /proc/self/statm: pages of data and stack."""


class DataSize:
    """Of this process, or of the one that was forked from it and asks."""

    def __init__(self) -> None:
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def read_bytes(self) -> int:
        fields = os.pread(self._statm, 256, 0).split()
        return int(fields[_DATA]) * _PAGE_BYTES


class SharedMemoryLimit:
    def __init__(self, limit_mb: int | None, over: Callable[[], None]) -> None:
        """Beyond what there is now. `over` is called when it is found to be exceeded."""
        self._size = DataSize()
        self._over = over
        self._most_bytes: int | None = None
        if limit_mb is not None:
            self._most_bytes = self._size.read_bytes() + limit_mb * MIB
            _bound(self._most_bytes + limit_mb * MIB)

    def check(self) -> None:
        """After each call: what others take until the next check must fit in between."""
        if self._most_bytes is not None and self._size.read_bytes() > self._most_bytes:
            self._over()


def _bound(n_bytes: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    bound = n_bytes if most == resource.RLIM_INFINITY else min(n_bytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, most))
