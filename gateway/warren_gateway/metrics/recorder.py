"""The files of one run: first the journal, then TensorBoard's files, which the journal can mend.

Invariant: whenever this process dies, the next `open` and the events from `start` on lead to the
same points as if it had not, each once.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from warren_gateway.metrics.folders import describe
from warren_gateway.metrics.journal import JOURNAL, Entry, Journal
from warren_gateway.metrics.points import entry_of
from warren_schemas.events import RunEvent
from warren_schemas.tensorboard.about import About
from warren_schemas.tensorboard.files import Point, Record, TensorBoardFiles


class Recorder:
    """All methods block: call them in a thread, one at a time."""

    def __init__(self, runs_dir: Path, about: About) -> None:
        self._folder = runs_dir / about.folder
        self._about = about
        self._journal = Journal(self._folder / JOURNAL)
        self._files = TensorBoardFiles(self._folder)
        self._ahead: set[Point] = set()
        """Points that TensorBoard's files hold and a torn journal does not: they come again."""

    @property
    def is_complete(self) -> bool:
        """The run's last event is recorded."""
        return self._journal.last is not None and self._journal.last.is_last

    def open(self) -> int | Literal["first"]:
        """Mend what a crash left behind; returns the offset to read from."""
        describe(self._folder, self._about)
        records = [_record(entry) for entry in self._journal.load()]
        written = self._files.points()
        self._files.introduce(self._about, known=written)
        self._files.write(records, known=written)
        self._ahead = written.difference(*(record.points for record in records))
        return self._journal.last.offset if self._journal.last else "first"

    def record(self, offset: int, events: Sequence[RunEvent]) -> None:
        """The events of one message of the stream."""
        entries = [entry_of(event, offset, place) for place, event in enumerate(events)]
        new = self._journal.append(entry for entry in entries if entry)
        self._files.write(map(_record, new), known=self._ahead)

    def close(self) -> None:
        self._files.close()


def _record(entry: Entry) -> Record:
    return Record(entry.at_s, entry.step, entry.metrics, entry.state)
