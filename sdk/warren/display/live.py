"""The live view of a run at a terminal: a table that is drawn again, and lines that stay above it.

Drawing happens in rich's own thread; it only reads a `Progress`, which never changes.
"""

import time
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from warren.display.pretty import STATE_STYLES
from warren.display.progress import Progress
from warren.display.views import REWARD, describe, headline
from warren.display.words import duration, ending, sparkline, step_label
from warren.streams.events import Event
from warren_schemas.events import (
    EvaluationCompleted,
    RunOutcome,
    RunState,
    StateChanged,
    WarningRaised,
)

REFRESHES_PER_S = 4
BAR_WIDTH = 36
CURVE_WIDTH = 40
MOST_QUEUES = 3
_MARKS = {
    RunState.COMPLETED: Text("✓", style="green"),
    RunState.FAILED: Text("✗", style="red"),
    RunState.CANCELLED: Text("✗", style="magenta"),
}


class LiveView:
    wants_queues = True

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            get_renderable=self._draw,
            console=console,
            refresh_per_second=REFRESHES_PER_S,
            transient=False,
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, progress: Progress, event: Event | None = None) -> None:
        self._progress = progress
        if event is not None and (line := _lasting(progress, event)) is not None:
            self._console.print(line)

    def _draw(self) -> RenderableType:
        if self._progress is None:
            return Text("")
        return draw(self._progress, now_s=time.time(), spinner=self._spinner)


def _lasting(progress: Progress, event: Event) -> Text | None:
    """What stays on the screen above the table: marks of the way, not every step."""
    line = describe(progress, event) or ""
    match event.body:
        case EvaluationCompleted():
            return Text(f"  ✓ {line}", style="green")
        case WarningRaised():
            return Text(f"  ! {line}", style="yellow")
        case StateChanged(state=RunState.FAILED | RunState.CANCELLED):
            return Text(f"  ✗ {line}", style="red")
        case StateChanged(reason=str()):
            return Text(f"  ! {line}", style="yellow")
        case _:
            return None


def draw(progress: Progress, *, now_s: float, spinner: RenderableType | None = None) -> Group:
    """Everything about a run in about ten lines."""
    parts: list[RenderableType] = [_title(progress, now_s, spinner)]
    if progress.phase_steps:
        parts.append(_bar(progress))
    parts.append(_numbers(progress))
    if progress.waiting_for:
        parts.append(Text(f"  waiting: {progress.waiting_for}", style="yellow"))
    if progress.lost:
        parts.append(Text(f"  {progress.lost}; trying again", style="yellow"))
    return Group(*parts)


def _title(progress: Progress, now_s: float, spinner: RenderableType | None) -> Table:
    end_s = progress.at_s if progress.state.is_final else now_s
    phase = f" · {progress.phase}" if progress.phase and not progress.state.is_final else ""
    state = ending(progress.state, progress.outcome)
    text = Text.assemble(
        (progress.name, "bold"),
        (f"  {progress.run}  ", "dim"),
        (f"{state}{phase}", STATE_STYLES[state]),
        (f"  {duration(max(0.0, end_s - progress.created_s))}", "dim"),
    )
    grid = Table.grid(padding=(0, 1))
    grid.add_row("", _mark(progress) or spinner or "•", text)
    return grid


def _mark(progress: Progress) -> Text | None:
    if progress.outcome not in (None, RunOutcome.TRAINED, RunOutcome.EVALUATED):
        return Text("!", style="yellow")
    return _MARKS.get(progress.state)


def _bar(progress: Progress) -> Table:
    grid = Table.grid(padding=(0, 1))
    left_s = progress.remaining_s
    left = f"{duration(left_s)} left" if left_s and not progress.state.is_final else ""
    grid.add_row(
        "  ",
        Text(step_label(progress.phase), style="dim"),
        ProgressBar(total=progress.phase_steps, completed=progress.step, width=BAR_WIDTH),
        Text(f"{progress.step}/{progress.phase_steps}"),
        Text(left, style="dim"),
    )
    return grid


def _numbers(progress: Progress) -> Table:
    grid = Table.grid(padding=(0, 2))
    for label, value in headline(progress):
        text = Text(value, style="bold")
        if label == REWARD:
            text.append(f"  {sparkline(progress.rewards.points, CURVE_WIDTH)}", style="green")
        grid.add_row(" ", Text(label, style="dim"), text)
    if progress.queues:
        grid.add_row(" ", Text("queues", style="dim"), _depths(progress))
    return grid


def _depths(progress: Progress) -> Text:
    """The deepest queues; those where nothing waits are not worth a word each."""
    busy = sorted((queue for queue in progress.queues if queue.n_ready), key=lambda q: -q.n_ready)
    words = [f"{queue.name} {queue.n_ready}" for queue in busy[:MOST_QUEUES]]
    return Text(" · ".join(words) if words else "nothing waits", style="bold")
