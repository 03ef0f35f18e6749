"""What the process of an episode prints, on its way from a pipe to this process's standard error.

Each line gets the episode's tag; of one episode, `MAX_BYTES` go through. The same pipe answers the
question where the process is (`stack`).
"""

import os
from collections.abc import Iterator

from warren_env_worker.output.lines import Lines
from warren_env_worker.output.stack import asked, own_place, places
from warren_env_worker.reach.sealed import Sealed
from warren_env_worker.reach.secrets import Cleaner

MAX_BYTES = 65_536
_READ_BYTES = 1024 * 1024
_STDERR = 2


class EpisodeOutput:
    def __init__(self, source: int, tag: str, told: Sealed) -> None:
        """`source` stays the caller's to close; reading from it never waits. What the process was `told`
        is cut out."""
        os.set_blocking(source, False)
        self._source = source
        self._lines = Lines(tag)
        self._cleaner = Cleaner(told.lines())
        self._room = MAX_BYTES

    def pass_on(self) -> bool:
        """What there is; False when nothing more will come."""
        try:
            printed = os.read(self._source, _READ_BYTES)
        except BlockingIOError:
            return True
        self._tell(printed)
        return bool(printed)

    def where(self, pid: int, root: str) -> str:
        """Where the process waits, as the end of a sentence; blocks for a moment."""
        self.pass_on()
        dump = asked(pid, self._source)
        self._tell(dump.encode())
        place = own_place(places(dump), root)
        return f"; it waits at {place}" if place else ""

    def end(self) -> None:
        """What is left, once the process is dead or done with the episode."""
        for printed in self._rest():
            self._tell(printed)
        self._keep(self._cleaner.rest())
        self._write(self._lines.end())

    def forget(self) -> None:
        """What was read and not written yet."""
        self._lines, self._cleaner = Lines(""), Cleaner()

    def _rest(self) -> Iterator[bytes]:
        """What it has started may hold the pipe: nobody waits for that, nor reads it without end."""
        try:
            while (printed := os.read(self._source, _READ_BYTES)) and self._room:
                yield printed
        except BlockingIOError:
            return

    def _tell(self, printed: bytes) -> None:
        if self._room and printed:
            self._keep(self._cleaner.clean(printed))

    def _keep(self, printed: bytes) -> None:
        if not self._room:
            return
        kept = printed[: self._room]
        self._room -= len(kept)
        self._write(self._lines.add(kept))
        if len(kept) < len(printed):
            self._write(self._lines.add(b"\n... more output of this episode is dropped\n"))

    def _write(self, lines: bytes) -> None:
        if lines:
            os.write(_STDERR, lines)
