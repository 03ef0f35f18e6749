"""The files of one run: first the journal, then TensorBoard's files, which the journal can mend.

Invariant: whenever this process dies, the next `open` and the events from `start` on lead to the
same points as if it had not, each once.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from warren_gateway.metrics.journal import Entry, Journal
from warren_gateway.metrics.points import entry_of
from warren_gateway.metrics.tensorboard_files import TensorBoardFiles
from warren_schemas.events import RunEvent

JOURNAL = "metrics.jsonl"


class Recorder:
    """All methods block: call them in a thread, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder / JOURNAL)
        self._files = TensorBoardFiles(folder)
        self._n_written = 0
        """Points in TensorBoard's files; after a power cut they may be ahead of the journal."""

    @property
    def is_complete(self) -> bool:
        """The run's last event is recorded."""
        return self._journal.last is not None and self._journal.last.is_last

    def open(self) -> int | Literal["first"]:
        """Mend what a crash left behind; returns the offset to read from."""
        entries = self._journal.load()
        self._n_written = self._files.n_points()
        self._write(entries, n_before=0)
        return self._journal.last.offset if self._journal.last else "first"

    def record(self, offset: int, events: Sequence[RunEvent]) -> None:
        """The events of one message of the stream."""
        entries = [entry_of(event, offset, place) for place, event in enumerate(events)]
        n_before = self._journal.n_points
        new = self._journal.append(entry for entry in entries if entry)
        self._write(new, n_before)

    def _write(self, entries: Sequence[Entry], n_before: int) -> None:
        """The entries' points that TensorBoard's files lack; `n_before` points come before them."""
        self._files.write(entries, skip=max(0, self._n_written - n_before))
        self._n_written = max(self._n_written, self._journal.n_points)

    def close(self) -> None:
        self._files.close()
