"""Rows of one file of a data set by their number. Reading one costs a look into mapped memory."""

import mmap
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from warren_gateway.datasets.problems import FilesUnavailable

_SCAN_BYTES = 16 * 1024 * 1024
_LINE_END = ord("\n")


class RowFile:
    """One file of JSON lines. Raises `FilesUnavailable` where it can't be opened."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise FilesUnavailable(f"a file of a data set can't be read: {error}") from error
        ends = self._ends = _line_ends(self._data)
        self._starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])

    def __len__(self) -> int:
        return len(self._ends)

    def within(self, offset: int, limit: int, max_bytes: int) -> range:
        """As many rows from this one on as are asked for and have no more bytes; at least one, if it is there."""
        chosen = range(offset, min(offset + limit, len(self)))
        if not chosen:
            return chosen
        last = int(np.searchsorted(self._ends, int(self._starts[offset]) + max_bytes))
        return chosen[: max(1, last - offset)]

    def row(self, number: int) -> dict[str, Any]:
        """Counted from 0."""
        start, end = int(self._starts[number]), int(self._ends[number])
        return cast("dict[str, Any]", orjson.loads(self._data[start:end]))


def _line_ends(data: mmap.mmap) -> NDArray[np.int64]:
    """Where the lines end; a part at a time, since comparing takes as much memory again."""
    found = [
        np.flatnonzero(
            np.frombuffer(data, np.uint8, min(_SCAN_BYTES, len(data) - at), at) == _LINE_END
        )
        + at
        for at in range(0, len(data), _SCAN_BYTES)
    ]
    return np.concatenate(found).astype(np.int64)
