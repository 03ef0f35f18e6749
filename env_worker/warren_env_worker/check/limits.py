"""Calls of user code, bounded in time.

Invariant: a call that outlives its limit is interrupted by a signal, again and again if it catches
what interrupts it; where there is a watch, native code that heeds no signal ends with its process
`GRACE_S` later, and its stack is written down first.
"""

import asyncio
import faulthandler
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from types import FrameType

from warren_env_worker.output.stack import own_place, places_of_coroutine, places_of_frame

GRACE_S = 3.0
AGAIN_S = 0.5
_PLAYING = str(Path(__file__).with_name("probe.py"))
"""What it calls is the environment; what calls it is not."""


class TookTooLong(BaseException):
    """No `Exception`: user code that catches those must not go on."""


class CallLimits:
    def __init__(self, root: str, watch: int | None = None) -> None:
        """`root` is where the environment's own code lies; stacks are written to `watch`."""
        self._root = root
        self._watch = watch
        self.longest_s: dict[str, float] = {}

    @contextmanager
    def limited(self, where: str, limit_s: float) -> Generator[None]:
        """Raises `TookTooLong`, with the place in the environment's code where it waited."""
        task = asyncio.current_task()

        def late(_: int, frame: FrameType | None) -> None:
            awaiting = places_of_coroutine(task.get_coro()) if task else []
            running = takewhile(lambda place: place.path != _PLAYING, places_of_frame(frame))
            place = own_place([*running, *awaiting], self._root)
            told = f"; it waits at {place}" if place else ""
            raise TookTooLong(f"{where} took longer than {limit_s:g} s{told}")

        before = signal.signal(signal.SIGALRM, late)
        if self._watch is not None:
            faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True, file=self._watch)
        signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
        begun_s = time.monotonic()
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            if self._watch is not None:
                faulthandler.cancel_dump_traceback_later()
            taken_s = time.monotonic() - begun_s
            self.longest_s[where] = max(taken_s, self.longest_s.get(where, 0.0))
