"""The archive of a run, read again: the messages of its recording, one at a time. All calls block.

Invariants
- Messages come by rising offsets, each with what the run counted of it, as the stream would give them.
- No more than one message is held, however large a part of the archive is.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import groupby
from typing import Any

import orjson

from warren_gateway.archive.folder import ArchiveUnavailable, Folder
from warren_gateway.coordinator.replaying.files import RecordingUnavailable, RecordingWrong
from warren_gateway.coordinator.state.recorded import Message
from warren_gateway.position import PLACES
from warren_schemas.config import ArchiveFormat
from warren_schemas.datasets.exported import Exported, NotExported, exported
from warren_schemas.ids import RunId

_CHUNK_BYTES = 1024 * 1024
_BATCH_ROWS = 64

Row = dict[str, Any]


class ArchivedRun:
    """Its methods raise `RecordingUnavailable`, `RecordingWrong`."""

    def __init__(self, url: str, run: RunId, form: ArchiveFormat) -> None:
        with _told():
            self._folder = Folder(url, run, form)

    def is_whole(self) -> bool:
        with _told():
            return self._folder.is_finished()

    def messages(self, start: int) -> Iterator[Message]:
        with _told():
            firsts = self._folder.firsts()
        for first in firsts:
            if first + self._folder.part_messages > start:
                for message in _messages(map(_exported, self._part(first))):
                    if message.offset >= start:
                        yield message

    def _part(self, first: int) -> Iterator[Row]:
        with _told(), self._folder.reading(first) as file:
            yield from _parquet_rows(file) if self._folder.is_parquet else _json_rows(file)


def _exported(row: Row) -> Exported:
    try:
        return exported(row)
    except NotExported as error:
        place = row.get("offset")
        raise RecordingWrong(f"its row at offset {place} can't be replayed: {error}") from error


def _messages(rows: Iterable[Exported]) -> Iterator[Message]:
    for offset, those in groupby(rows, lambda row: row.offset // PLACES):
        yield Message.of_archive(offset, list(those))


def _json_rows(file: Any) -> Iterator[Row]:
    arrow: Any = import_module("pyarrow")
    rest = b""
    with arrow.CompressedInputStream(arrow.PythonFile(file, mode="r"), "zstd") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from map(orjson.loads, lines)


def _parquet_rows(file: Any) -> Iterator[Row]:
    parquet: Any = import_module("pyarrow.parquet")
    for batch in parquet.ParquetFile(file).iter_batches(_BATCH_ROWS):
        for number in range(batch.num_rows):
            [row] = batch.slice(number, 1).to_pylist()
            yield row


@contextmanager
def _told() -> Generator[None]:
    try:
        yield
    except ArchiveUnavailable as error:
        raise RecordingUnavailable(str(error)) from error
