"""Rows of data sets by their number, from files on this machine.

A file that lies elsewhere is copied once, by its SHA-256, into a folder of this gateway's own. Reading a row costs
a look into mapped memory: files never change, so what is read from them is as good as a constant.
"""

import asyncio
import mmap
import os
import secrets
import shutil
from collections import OrderedDict
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from warren_gateway.datasets import folder
from warren_gateway.datasets.folder import Folder
from warren_gateway.datasets.problems import FilesUnavailable
from warren_schemas.http import DatasetSplit

MOST_OPEN = 64
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


class RowFiles:
    def __init__(self, files: Folder, cache: Path) -> None:
        self._files = files
        self._cache = cache
        self._open: OrderedDict[str, RowFile] = OrderedDict()

    async def opened(self, dataset: str, split: DatasetSplit) -> RowFile:
        """Raises `FilesUnavailable`."""
        key = f"{dataset}/{split.name}"
        if key not in self._open:
            found = await asyncio.to_thread(self._opened, dataset, split)
            self._open[key] = found
        self._open.move_to_end(key)
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)
        return self._open[key]

    def _opened(self, dataset: str, split: DatasetSplit) -> RowFile:
        name = folder.split_file(dataset, split.name)
        return RowFile(self._files.local(name) or self._copied(name, split.sha256))

    def _copied(self, name: str, sha256: str) -> Path:
        path = self._cache / f"{sha256}.jsonl"
        if path.exists():
            return path
        beside = path.with_name(f".{sha256}.{secrets.token_hex(4)}")
        try:
            self._cache.mkdir(parents=True, exist_ok=True)
            with self._files.reading(name) as source, beside.open("wb") as target:
                shutil.copyfileobj(source, target)
                os.fsync(target.fileno())
            beside.replace(path)
        except OSError as error:
            raise FilesUnavailable(f"a file of a data set can't be copied: {error}") from error
        return path
