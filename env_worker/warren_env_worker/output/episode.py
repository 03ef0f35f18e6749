"""What the process of an episode prints, on its way from a pipe to this process's standard error.

Each line gets the episode's tag; of one episode, `MAX_BYTES` go through. The same pipe answers the
question where the process is (`stack`).
"""

import os

from warren_env_worker.output.lines import Lines
from warren_env_worker.output.stack import asked, own_place, places
from warren_env_worker.permissions.reading import PlainReader, ReaderApart
from warren_env_worker.permissions.sealed import Sealed

MAX_BYTES = 65_536
_STDERR = 2


class EpisodeOutput:
    def __init__(self, source: int, tag: str, told: Sealed) -> None:
        """`source` stays the caller's to close; reading from it never waits. The secrets that the process
        was `told` are cut out."""
        os.set_blocking(source, False)
        self._source = source
        self._reader = ReaderApart(source, told.lines()) if told.values else PlainReader(source)
        self._lines = Lines(tag)
        self._left_bytes = MAX_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether nothing came so far."""
        return self._left_bytes == MAX_BYTES

    def pass_on(self) -> bool:
        """What there is; False when nothing more will come."""
        try:
            printed = self._reader.read()
        except BlockingIOError:
            return True
        self._keep(printed or b"")
        return printed is not None

    def where(self, pid: int, root: str) -> str:
        """Where the process waits, as the end of a sentence; blocks for a moment."""
        self.pass_on()
        dump = asked(pid, self._source)
        self._keep(self._reader.clean(dump.encode()))
        place = own_place(places(dump), root)
        return f"; it waits at {place}" if place else ""

    def end(self) -> None:
        """What is left, once the process is dead or done with the episode.

        What it has started may hold the pipe: nobody waits for that, nor reads it without end.
        """
        try:
            while self._left_bytes and (printed := self._reader.read()) is not None:
                self._keep(printed)
        except BlockingIOError:
            pass
        self._keep(self._reader.rest())
        self._write(self._lines.end())

    def drop_unwritten(self) -> None:
        """What was read and not written yet."""
        self._lines = Lines("")

    def _keep(self, printed: bytes) -> None:
        if not (self._left_bytes and printed):
            return
        kept = printed[: self._left_bytes]
        self._left_bytes -= len(kept)
        self._write(self._lines.add(kept))
        if len(kept) < len(printed):
            self._write(self._lines.add(b"\n... more output of this episode is dropped\n"))

    def _write(self, lines: bytes) -> None:
        if lines:
            os.write(_STDERR, lines)
