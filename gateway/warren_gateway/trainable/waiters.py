"""Who waits for outcomes at this gateway, and what was accepted and answered here a moment ago.

Invariants: whoever waits is woken by the coordinator's commit, here or at another gateway, and no wait depends on a
message that may be lost: the last look, into the store, is when the wait is over. What is told from memory is
committed, and told to its owner alone; what memory doesn't know is in the store.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from warren_gateway.access.caller import Viewer
from warren_gateway.recent import Recent
from warren_gateway.trainable.outcomes import Done, Failed, Request, outcome_of
from warren_schemas.control import RequestsAnswered
from warren_schemas.training import OpDone, OpResult

MOST_KEPT = 4096
MOST_BYTES = 64 * 1024 * 1024
"""Of outcomes in memory; older ones are read from the store."""
_BYTES = 1024
"""Of an outcome without logprobs."""


class Waiters:
    def __init__(self) -> None:
        self._events: dict[str, set[asyncio.Event]] = {}
        self._recent = _Recent()

    @contextmanager
    def watch(self, futures: Collection[str]) -> Generator[asyncio.Event]:
        """Set when one of them may have its outcome."""
        event = asyncio.Event()
        for future in futures:
            self._events.setdefault(future, set()).add(event)
        try:
            yield event
        finally:
            for future in futures:
                self._events[future].discard(event)
                if not self._events[future]:
                    del self._events[future]

    def accepted(self, owner: str, request: Request) -> None:
        """It is new, and in the store."""
        self._recent.add(owner, request)

    def known(self, viewer: Viewer, future: str) -> Done | Failed | Literal["open"] | None:
        """What memory has of it, once: the outcome, or that there is none yet. None: the store knows."""
        return self._recent.take(viewer, future)

    def answered(self, outcomes: Mapping[str, OpResult] | None) -> None:
        """These are committed; None: any may have one."""
        for future, result in (outcomes or {}).items():
            self._recent.answer(future, result)
        if outcomes is None:
            self._recent.forget_open(None)
        self.wake(list(self._events) if outcomes is None else outcomes)

    def hear(self, news: Sequence[RequestsAnswered]) -> None:
        """What coordinators tell, at this gateway or another; the outcomes are in the store."""
        for item in news:
            self._recent.forget_open(item.requests)
            self.wake(list(self._events) if item.requests is None else item.requests)

    def wake(self, futures: Collection[str]) -> None:
        """Let who waits for one of these look."""
        for future in futures:
            for event in self._events.get(future, ()):
                event.set()


@dataclass(slots=True)
class _Entry:
    owner: str
    request: Request
    result: OpResult | None = None
    is_looked_at: bool = False

    @property
    def size_bytes(self) -> int:
        outcome = None if self.result is None else self.result.outcome
        logprobs_N = outcome.logprobs_N if isinstance(outcome, OpDone) else None
        return _BYTES + (0 if logprobs_N is None else logprobs_N.nbytes)


class _Recent:
    """The newest requests by future, within bounds. Legend: `_N` tokens of all sequences laid end to end."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._n_bytes = 0
        self._early = Recent()
        """Futures that were answered before whoever asked had heard of their commit, or that others asked for."""

    def add(self, owner: str, request: Request) -> None:
        if request.id not in self._early:
            self._put(request.id, _Entry(owner, request))

    def answer(self, future: str, result: OpResult) -> None:
        if (entry := self._pop(future)) is not None:
            self._put(future, _Entry(entry.owner, entry.request, result))
        else:
            self._early.add(future)

    def take(self, viewer: Viewer, future: str) -> Done | Failed | Literal["open"] | None:
        entry = self._entries.get(future)
        if entry is None or not viewer.owns(entry.owner):
            return None
        if entry.result is not None:
            self._pop(future)
            return outcome_of(entry.request, entry.result)
        is_first, entry.is_looked_at = not entry.is_looked_at, True
        return "open" if is_first else None

    def forget_open(self, futures: Collection[str] | None) -> None:
        """These, or all: what became of them is not known here."""
        for future in list(self._entries) if futures is None else futures:
            if future not in self._entries:
                self._early.add(future)
            elif self._entries[future].result is None:
                self._pop(future)

    def _put(self, future: str, entry: _Entry) -> None:
        self._entries[future] = entry
        self._n_bytes += entry.size_bytes
        while len(self._entries) > MOST_KEPT or self._n_bytes > MOST_BYTES:
            self._pop(next(iter(self._entries)))

    def _pop(self, future: str) -> _Entry | None:
        entry = self._entries.pop(future, None)
        if entry is not None:
            self._n_bytes -= entry.size_bytes
        return entry
