"""Recordings that lie in files: archives of runs, and exports that were uploaded as data sets.

Invariant: the messages of such a recording, and so its groups, come in the order in which they were recorded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from warren_gateway.coordinator.state.recorded import Message
from warren_gateway.coordinator.state.rows import RowsOfSplit
from warren_schemas.config import ArchiveFormat
from warren_schemas.datasets.exported import Exported, replayable
from warren_schemas.ids import RunId

ROWS_AT_ONCE = 16
"""Rows of a data set that count as one message."""


class RecordingUnavailable(Exception):
    """The files can't be read now; says why."""


class RecordingWrong(Exception):
    """What stands in the files is not what can be replayed, whenever it is read; says which row and why."""


@dataclass(frozen=True, slots=True)
class Archived:
    """The archive of the run, in files of this form."""

    form: ArchiveFormat


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A split of a data set, by its exact reference."""

    reference: str
    split: str


class Files(Protocol):
    """Methods block. Raise `RecordingUnavailable`, `RecordingWrong`."""

    def is_whole(self) -> bool:
        """Whether nothing more comes."""
        ...

    def messages(self, start: int) -> Iterator[Message]:
        """Those from this offset on."""
        ...


OpenArchive = Callable[[RunId, ArchiveFormat], Files]
"""Blocks. Raises `RecordingUnavailable`."""


def no_archive(run: RunId, _: ArchiveFormat) -> Files:
    raise RecordingUnavailable(f"this gateway keeps no archive, so none of {run}")


def n_messages(n_rows: int) -> int:
    return -(-n_rows // ROWS_AT_ONCE)


class UploadedRows:
    def __init__(self, rows: RowsOfSplit) -> None:
        self._rows = rows

    @property
    def n_rows(self) -> int:
        return len(self._rows)

    def is_whole(self) -> bool:
        return True

    def messages(self, start: int) -> Iterator[Message]:
        for offset in range(start, n_messages(self.n_rows)):
            first = offset * ROWS_AT_ONCE
            numbers = range(first, min(first + ROWS_AT_ONCE, self.n_rows))
            yield Message.of_rows(offset, [self._row(n) for n in numbers])

    def _row(self, number: int) -> Exported:
        """A row was checked when it was uploaded, but by the Warren of that time."""
        try:
            return replayable(self._rows.row(number))
        except ValueError as error:  # `NotExported`, and what is no JSON any more
            raise RecordingWrong(f"line {number + 1} can't be replayed: {error}") from error
