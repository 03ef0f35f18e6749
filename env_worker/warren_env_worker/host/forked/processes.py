"""The processes of the fork server, and what each of them does."""

import os
import selectors
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from warren_env_worker.host.forked.episode_process import EpisodeProcess
from warren_env_worker.host.forked.pool import Pool
from warren_env_worker.host.protocol import Call

SOON_S = 0.05
"""So long a new episode waits for a process that is about to be free."""
N_AT_WORK = len(os.sched_getaffinity(0))
"""Most that play stateless calls at a time: more would only be in each other's way."""


class Processes:
    """All that were not reaped: live, closing, idle, dismissed, or at work on stateless calls."""

    def __init__(self, selector: selectors.BaseSelector, *, reuses: bool) -> None:
        self._selector = selector
        self._reuses = reuses
        self._all: set[EpisodeProcess] = set()
        self._live: dict[int, EpisodeProcess] = {}
        self.closing: set[EpisodeProcess] = set()
        """Have given their last answer; they will say that they are ready, or end."""
        self.at_work: set[EpisodeProcess] = set()
        """On stateless calls."""
        self.pool = Pool()

    def __iter__(self) -> Iterator[EpisodeProcess]:
        return iter(tuple(self._all))

    def __contains__(self, process: EpisodeProcess) -> bool:
        return process in self._all

    @property
    def n_busy(self) -> int:
        return len(self._all) - len(self.pool)

    @property
    def n_more(self) -> int:
        """So many more may take up stateless calls."""
        return N_AT_WORK - len(self.at_work)

    def expect_end(self, process: EpisodeProcess) -> bool:
        """Whether this one will say that it is ready, or end."""
        return process in self.closing or process in self.at_work

    def of(self, slot: int) -> EpisodeProcess | None:
        """The one that holds this live episode."""
        return self._live.get(slot)

    def add(self, process: EpisodeProcess) -> None:
        self._all.add(process)
        for kind in ("talk", "output", "exit"):
            source = getattr(process, kind)
            self._selector.register(source, selectors.EVENT_READ, (process, kind))

    def remove(self, process: EpisodeProcess) -> None:
        for source in (process.talk, process.output, process.exit):
            if source in self._selector.get_map():
                self._selector.unregister(source)
        self._all.remove(process)
        self.closing.discard(process)
        self.at_work.discard(process)
        self.pool.remove(process)
        if process.slot is not None:
            del self._live[process.slot]

    def hold(self, slot: int, process: EpisodeProcess) -> None:
        self._live[slot] = process

    def let_close(self, process: EpisodeProcess) -> None:
        """It has said all; what it still does is to close its episode."""
        assert process.slot is not None
        del self._live[process.slot]
        process.slot = None
        process.asked_s = time.monotonic()
        self.closing.add(process)
        if not self._reuses:
            process.talk.shutdown(socket.SHUT_WR)

    def rest(self, process: EpisodeProcess) -> None:
        """It is ready for what comes next."""
        self.closing.discard(process)
        self.at_work.discard(process)
        process.rest()
        self.pool.put(process)

    def drop_call(self, slot: int) -> Call | None:
        """Nobody needs the stateless call of this episode any more; the call, if it was under way."""
        dropped = [call for p in self.at_work if (call := p.drop_call(slot)) is not None]
        return dropped[0] if dropped else None

    def n_soon(self, call: Call, n_loads: int) -> int:
        """Those that are about to be free for this call."""
        if not (self._reuses and self.closing):
            return 0
        since_s = time.monotonic() - SOON_S
        return sum(p.asked_s > since_s and p.suits(call, n_loads) for p in self.closing)

    def leave_all(self) -> None:
        """In a forked process, which has no part in them."""
        for sibling in self._all:
            sibling.forget_output()
            sibling.close()
            os.close(sibling.exit)

    @contextmanager
    def unheard(self) -> Generator[None]:
        """Meanwhile nobody listens, so nobody is silent."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            deaf_s = time.monotonic() - began_s
            for process in self._all:
                process.asked_s += deaf_s

    def dismiss_old(self, now_s: float) -> None:
        while (old := self.pool.take_old()) is not None:
            old.asked_s = now_s
            old.talk.shutdown(socket.SHUT_WR)
            self.closing.add(old)
