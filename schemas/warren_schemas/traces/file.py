"""A file of TrainingTraces, one a line. All calls block."""

from collections.abc import Sequence

from warren_schemas.exports.files import JsonLinesFile
from warren_schemas.http import TrajectoryView
from warren_schemas.traces.writing import trace_line

TRACES_ENDING = ".traces.jsonl"


class TracesFile(JsonLinesFile):
    """Raises `OSError`."""

    def write(self, views: Sequence[TrajectoryView]) -> int:
        """How many of them can be traces, and were written."""
        lines = [line for view in views if (line := trace_line(view)) is not None]
        self._file.write(b"".join(lines))
        return len(lines)
