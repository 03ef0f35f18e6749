"""The archive's files of one run, below any fsspec URL.

A part holds what stands in `PART_MESSAGES` messages of the stream, from a multiple of that number on. So
its name and its content are the same whoever writes it, and however often.

Invariants: a file that is there under its name is whole; `complete` is there after all of them. What two
gateways write at once never meets before it is whole.
"""

import secrets
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from warren_schemas.config import ArchiveFormat
from warren_schemas.http import TrajectoryView
from warren_schemas.tabular import ParquetFile

PART_MESSAGES = 64
COMPLETE = "complete"
_UNFINISHED = ".part"


class Folder:
    """All calls block. Raise `OSError`, or what the file system of the URL raises."""

    def __init__(self, url: str, run: str, form: ArchiveFormat) -> None:
        core: Any = import_module("fsspec.core")
        self._files, self._path = core.url_to_fs(f"{url.rstrip('/')}/{run}")
        self._form: ArchiveFormat = form
        self._files.makedirs(self._path, exist_ok=True)

    def is_complete(self) -> bool:
        return bool(self._files.exists(f"{self._path}/{COMPLETE}"))

    def next_offset(self) -> int:
        """The first message of the first part that is not there."""
        firsts = [int(name.partition(".")[0]) for name in self._names() if name[0].isdigit()]
        return max(firsts, default=-PART_MESSAGES) + PART_MESSAGES

    def write(self, first_offset: int, views: Sequence[TrajectoryView]) -> None:
        """One part; written beside and moved into place."""
        name = f"{first_offset:012d}.{'parquet' if self._form == 'parquet' else 'jsonl.zst'}"
        with tempfile.TemporaryDirectory(prefix="warren-archive-") as folder:
            local = Path(folder) / name
            _write(local, views, self._form)
            beside = f"{self._path}/.{name}.{secrets.token_hex(4)}{_UNFINISHED}"
            self._files.put_file(str(local), beside)
            self._files.mv(beside, f"{self._path}/{name}")

    def finish(self) -> None:
        """All parts are there."""
        self._files.touch(f"{self._path}/{COMPLETE}")
        for name in self._names():
            if name.endswith(_UNFINISHED):  # of a gateway that died, or is late
                self._files.rm_file(f"{self._path}/{name}")

    def _names(self) -> list[str]:
        """What is there by now, whoever wrote it."""
        self._files.invalidate_cache(self._path)
        return [str(path).rpartition("/")[2] for path in self._files.ls(self._path, detail=False)]


def _write(path: Path, views: Sequence[TrajectoryView], form: ArchiveFormat) -> None:
    if form == "parquet":
        with ParquetFile(path) as file:
            file.write(views)
        return
    arrow: Any = import_module("pyarrow")
    lines = b"".join(view.model_dump_json().encode() + b"\n" for view in views)
    with arrow.CompressedOutputStream(str(path), "zstd") as file:
        file.write(lines)
