"""The lines that one part logs for one run, until they are sent.

Invariants: a line has the next number whether it is kept or left out, so that whoever reads them knows how many
are missing. `LINES_PER_S` are kept in the long run, `BURST` at once, and no more than `MAX_WAITING` wait to be sent: a
run that talks without end takes neither memory nor the broker's time.
"""

import re

from warren_schemas.events import MAX_LOG_CHARS, LogLevel, LogLine
from warren_schemas.ids import new_id

LINES_PER_S = 20.0
BURST = 200.0
MAX_WAITING = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class RunLines:
    def __init__(self, now_s: float) -> None:
        """Times are of a clock that never goes back."""
        self.source = new_id("log")
        self.n_logged = 0
        self._n_told = 0
        self._waiting: list[LogLine] = []
        self._credit = BURST
        self._credited_s = now_s

    @property
    def is_told(self) -> bool:
        """Whether nothing is to be sent."""
        return self.n_logged == self._n_told

    @property
    def has_waiting(self) -> bool:
        """Whether lines are to be sent, and not only how many were left out."""
        return bool(self._waiting)

    def add(self, level: LogLevel, text: str, *, at_s: float, now_s: float) -> None:
        """Keep a line, or count it."""
        self.n_logged += 1
        self._credit = min(BURST, self._credit + (now_s - self._credited_s) * LINES_PER_S)
        self._credited_s = now_s
        if self._credit < 1.0 or len(self._waiting) >= MAX_WAITING:
            return
        self._credit -= 1.0
        line = LogLine(number=self.n_logged, at_s=at_s, level=level, text=_printable(text))
        self._waiting.append(line)

    def take(self) -> tuple[LogLine, ...]:
        """What is to be sent now, together with `n_logged`."""
        lines, self._waiting = tuple(self._waiting), []
        self._n_told = self.n_logged
        return lines


def _printable(text: str) -> str:
    """On one line, and harmless to a terminal."""
    shown = _CONTROL.sub(_escaped, text.encode(errors="replace").decode())
    return shown if len(shown) <= MAX_LOG_CHARS else shown[: MAX_LOG_CHARS - 1] + "…"


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    return "  " if character == "\t" else f"\\x{ord(character):02x}"
