"""The live view of a run in a notebook: one output that is written again, without widgets."""

import html
import sys
import time
from typing import TYPE_CHECKING, Self

from warren.display.progress import Progress
from warren.display.views import headline
from warren.display.words import duration, sparkline
from warren.streams.events import Event

if TYPE_CHECKING:
    from IPython.display import DisplayHandle

EVERY_S = 0.25
"""Steps come many per second; a browser is sent one picture in this time, and the last."""
CURVE_WIDTH = 60


def in_notebook() -> bool:
    """Whether what is displayed here is seen in a browser: a Jupyter kernel, not a terminal."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return type(get_ipython()).__name__ == "ZMQInteractiveShell"


class NotebookView:
    wants_queues = False

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._handle: DisplayHandle | None = None
        self._drawn_s = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()

    def show(self, progress: Progress, event: Event | None = None) -> None:
        self._progress = progress
        if time.monotonic() - self._drawn_s >= EVERY_S:
            self._draw()

    def _draw(self) -> None:
        if self._progress is None:
            return
        from IPython.display import HTML, display

        self._drawn_s = time.monotonic()
        picture = HTML(as_html(self._progress))
        if self._handle is None:
            self._handle = display(picture, display_id=True)
        else:
            self._handle.update(picture)


def as_html(progress: Progress) -> str:
    """A line with a bar, and a table of the numbers that tell how it goes."""
    phase = f" · {progress.phase}" if progress.phase and not progress.state.is_final else ""
    title = (
        f"<b>{html.escape(progress.name)}</b> <code>{progress.run}</code> {progress.state}{phase}"
    )
    parts = [f"<div>{title}</div>"]
    if progress.phase_steps:
        left_s = None if progress.state.is_final else progress.remaining_s
        left = f", {duration(left_s)} left" if left_s else ""
        parts.append(
            f'<div><progress value="{progress.step}" max="{progress.phase_steps}"></progress>'
            f" step {progress.step}/{progress.phase_steps}{left}</div>"
        )
    parts.append(_table(progress))
    notes = [f"waiting: {progress.waiting_for}" if progress.waiting_for else ""]
    notes.append(f"{progress.lost}; trying again" if progress.lost else "")
    notes += progress.warnings
    notes.append(progress.reason or "")
    parts += [f"<div>{html.escape(note)}</div>" for note in notes if note]
    return "".join(parts)


def _table(progress: Progress) -> str:
    rows = headline(progress)
    if progress.rewards.points:
        rows.append(("curve", sparkline(progress.rewards.points, CURVE_WIDTH)))
    cells = (f"<tr><th>{label}</th><td>{html.escape(value)}</td></tr>" for label, value in rows)
    return f"<table>{''.join(cells)}</table>" if rows else ""
