"""What a child process of an environment prints, kept in the environment's log.

The child writes its stack there, too, when it is asked where it is; `where` picks that out.
"""

import os
import threading
import time

from warren_env_worker.output.lines import MAX_LINE_BYTES
from warren_env_worker.output.log import OutputLog, stamped
from warren_env_worker.output.stack import PATIENCE_S, ask, is_whole, own_place, places
from warren_env_worker.permissions.secrets import Cleaner

MAX_DUMP_BYTES = 65_536


class KeptOutput:
    def __init__(self, log: OutputLog) -> None:
        self.log = log
        self._who = f"worker {os.getpid()}"
        self._hear = log.make_hearing()
        self._begun = b""
        self._cleaner = Cleaner()
        self._recent: bytearray | None = None
        """What was printed since somebody asked where the child is."""
        self._printed = threading.Condition()

    def keep(self, printed: bytes) -> None:
        """Called by one thread at a time."""
        with self._printed:
            if self._recent is not None and len(self._recent) < MAX_DUMP_BYTES:
                self._recent += printed
                self._printed.notify_all()
        self._hear(printed)
        self._add(self._cleaner.clean(printed))

    def _add(self, printed: bytes) -> None:
        *whole, self._begun = (self._begun + printed).split(b"\n")
        if len(self._begun) > MAX_LINE_BYTES:
            whole.append(self._begun)
            self._begun = b""
        if whole:
            self.log.append(stamped(b"\n".join(whole), self._who))

    def end(self) -> None:
        """What is left is a line, too, once nothing more comes."""
        self._add(self._cleaner.rest())
        if self._begun:
            self._add(b"\n")

    def where(self, pid: int, root: str) -> str:
        """Where the child waits, as the end of a sentence; blocks for a moment."""
        until_s = time.monotonic() + PATIENCE_S
        with self._printed:
            self._recent = recent = bytearray()
            ask(pid)
            while not is_whole(recent.decode(errors="replace")):
                if not self._printed.wait(until_s - time.monotonic()):
                    break
            self._recent = None
        place = own_place(places(recent.decode(errors="replace")), root)
        return f"; it waits at {place}" if place else ""
