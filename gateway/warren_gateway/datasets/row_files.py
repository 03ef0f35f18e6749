"""Rows of data sets by their number, from files on this machine.

A file that lies elsewhere is copied once. Files never change, so what is read from them is as good as a constant.
"""

import asyncio
from collections import OrderedDict
from functools import partial
from pathlib import Path

from warren_gateway.datasets import folder
from warren_gateway.datasets.folder import Folder
from warren_gateway.datasets.row_cache import RowCache
from warren_gateway.datasets.row_file import RowFile
from warren_schemas.http import DatasetSplit

MOST_OPEN = 64
MOST_CACHED_BYTES = 20 * 1024**3
"""Of copies of files that lie elsewhere."""


class RowFiles:
    def __init__(self, files: Folder, cache: Path, most_bytes: int = MOST_CACHED_BYTES) -> None:
        self._files = files
        self._cache = RowCache(cache, most_bytes)
        self._open: OrderedDict[str, RowFile] = OrderedDict()

    async def opened(self, dataset: str, split: DatasetSplit) -> RowFile:
        """Raises `FilesUnavailable`."""
        key = f"{dataset}/{split.name}"
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        file, is_copy = await asyncio.to_thread(self._opened, dataset, split)
        self._open[key] = file
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)
        if is_copy:
            await self._trim()
        return file

    async def _trim(self) -> None:
        """What nobody has but us is closed first, where there is too much of it."""
        while await asyncio.to_thread(self._cache.trim) and len(self._open) > 1:
            self._open.popitem(last=False)

    def _opened(self, dataset: str, split: DatasetSplit) -> tuple[RowFile, bool]:
        """And whether it is a copy."""
        name = folder.split_file(dataset, split.name)
        if (path := self._files.local(name)) is not None:
            return RowFile(path), False
        return self._cache.opened(split.sha256, partial(self._files.reading, name)), True
