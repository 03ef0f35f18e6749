"""From the pipe that a child prints into to whoever keeps it.

Invariants: the child is never held up, by a slow disk for instance: what can't be kept in time is
dropped, and said to be. All that a child had printed when it died is kept, crash reports above all.
The event loop has no part in it.
"""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

_READ_BYTES = 65_536
_MAX_WAITING = 64
_DRAIN_S = 1.0
"""How long what is left may take to be kept. What the child has started may hold the pipe for longer."""

Keep = Callable[[bytes], None]


class Pump:
    """Reads until nobody can print any more. `keep` gets chunks, in a thread of its own."""

    def __init__(self, name: str, source: int, keep: Keep) -> None:
        self._source = source
        self._keep = keep
        self._waiting: queue.Queue[bytes] = queue.Queue(_MAX_WAITING)
        self._threads = [
            threading.Thread(target=target, name=f"{what} {name}", daemon=True)
            for what, target in (("read", self._read), ("keep", self._write))
        ]
        for thread in self._threads:
            thread.start()

    def drain(self) -> None:
        """Wait until all is kept, `_DRAIN_S` at most."""
        until_s = time.monotonic() + _DRAIN_S
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    def _read(self) -> None:
        n_dropped = 0
        while printed := os.read(self._source, _READ_BYTES):
            if n_dropped:
                printed = b"\n... %d bytes were dropped\n" % n_dropped + printed
            try:
                self._waiting.put_nowait(printed)
                n_dropped = 0
            except queue.Full:
                n_dropped += len(printed)
        os.close(self._source)
        self._waiting.put(b"")

    def _write(self) -> None:
        while printed := self._waiting.get():
            self._keep(printed)


@contextmanager
def pumped(name: str, keep: Keep) -> Generator[tuple[int, Pump]]:
    """The descriptor to print into, for a child; close it here once the child has it."""
    source, sink = os.pipe()
    pump = Pump(name, source, keep)
    try:
        yield sink, pump
    finally:
        with contextlib.suppress(OSError):
            os.close(sink)
