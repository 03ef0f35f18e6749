"""The ends of logs of runs that are over, for readers to come.

A reader finds the end of a log by a mark that is appended to it. Each mark takes the place of something that is kept, so
a run that is over gets no more than one in `REUSED_S` from each gateway, however often its log is read. What a worker says
later than the mark is read by whoever comes after that time.

Invariant: a reader gets no mark that lies before the place at which it begins: it would never come to it.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass, field

from warren_schemas.ids import RunId

REUSED_S = 60.0
MOST_KEPT = 1024


@dataclass(frozen=True, slots=True)
class _Mark:
    source: str
    offset: int
    until_s: float


@dataclass(slots=True)
class LogMarks:
    _of_run: "OrderedDict[RunId, _Mark]" = field(default_factory=OrderedDict["RunId", _Mark])

    def find(self, run: RunId, offset: int) -> str | None:
        """The source of the mark, for one who reads from this offset on."""
        mark = self._of_run.get(run)
        is_good = mark is not None and mark.until_s > time.monotonic() and mark.offset >= offset
        return mark.source if mark is not None and is_good else None

    def keep(self, run: RunId, source: str, offset: int) -> None:
        """It was reached, of a run that was over when it was set."""
        known = self._of_run.get(run)
        if known is None or known.source != source:
            self._of_run[run] = _Mark(source, offset, time.monotonic() + REUSED_S)
            self._of_run.move_to_end(run)
        while len(self._of_run) > MOST_KEPT:
            self._of_run.popitem(last=False)
