"""What a site says while it comes up: each part as it is ready, and what is still waited for.

Invariant: nothing goes on for longer than `PULSE_S` without a word, be it in a pipe.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

from warren.display.output import Output, is_terminal

if TYPE_CHECKING:
    from rich.status import Status

PULSE_S = 5.0
REDRAW_S = 1.0
PART_WIDTH = 12


class StartListener(Protocol):
    """Told how the parts of a site come up; from any thread."""

    def doing(self, part: str, what: str) -> None: ...
    def ready(self, part: str, what: str) -> None: ...


class Unheard:
    """Nobody looks."""

    def doing(self, part: str, what: str) -> None:
        pass

    def ready(self, part: str, what: str) -> None:
        pass


class StartView:
    """At a terminal a line that changes, above it what is ready; elsewhere lines alone."""

    def __init__(self, output: Output, *, pulse_s: float = PULSE_S) -> None:
        """`pulse_s`: between two lines that say what is still waited for, where lines are all."""
        self._output = output
        self._pulse_s = pulse_s
        self._doing: dict[str, str] = {}
        self._began_s = time.monotonic()
        self._status: Status | None = None

    def open(self) -> None:
        """Draw the changing line, if this is a terminal."""
        if is_terminal():
            from warren.display.pretty import PrettyOutput

            assert isinstance(self._output, PrettyOutput)
            self._status = self._output.console.status("starting")
            self._status.start()

    def close(self) -> None:
        """Leave the screen as it is."""
        if self._status is not None:
            self._status.stop()

    def doing(self, part: str, what: str) -> None:
        self._doing[part] = what
        if self._status is None:
            self._output.line(f"  … {part.ljust(PART_WIDTH)} {what}")
        self._redraw()

    def ready(self, part: str, what: str) -> None:
        self._doing.pop(part, None)
        self._output.line(f"  ✓ {part.ljust(PART_WIDTH)} {what}", "green")
        self._redraw()

    async def keep_telling(self) -> None:
        """Say what is waited for, until cancelled."""
        while True:
            await asyncio.sleep(self._pulse_s if self._status is None else REDRAW_S)
            if self._status is None:
                self._output.line(f"    {self._waiting}")
            self._redraw()

    def _redraw(self) -> None:
        if self._status is not None:
            self._status.update(self._waiting)

    @property
    def _waiting(self) -> str:
        parts = "; ".join(f"{part}: {what}" for part, what in list(self._doing.items()))
        return f"{parts or 'starting'} ({time.monotonic() - self._began_s:.0f} s)"
