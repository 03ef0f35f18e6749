"""A file of TrainingTraces, one a line. All calls block."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from warren_schemas.http import TrajectoryView
from warren_schemas.traces.writing import trace_line

TRACES_ENDING = ".traces.jsonl"


class TracesFile:
    """Raises `OSError`."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, views: Sequence[TrajectoryView]) -> int:
        """How many of them can be traces, and were written."""
        lines = [line for view in views if (line := trace_line(view)) is not None]
        self._file.write(b"".join(lines))
        return len(lines)
