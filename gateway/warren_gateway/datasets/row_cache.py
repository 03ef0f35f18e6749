"""Copies of files of data sets that lie elsewhere: in a folder of this gateway's own, by their SHA-256.

Invariants
- No more than `most_bytes` stay, but for what is in use; what was used least recently goes first, and nothing that
  is in use: not while it is copied or opened, nor while somebody has its rows.
- A copy appears whole; what an interrupted one has left behind goes with the next one that is too much.
"""

import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

from warren_gateway.datasets.folder import StoredFile
from warren_gateway.datasets.problems import FilesUnavailable
from warren_gateway.datasets.row_file import RowFile

Reading = Callable[[], AbstractContextManager[StoredFile]]


class RowCache:
    """Its methods block."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._lock = Lock()
        self._held = Counter[str]()
        self._in_use: WeakValueDictionary[str, RowFile] = WeakValueDictionary()

    def opened(self, sha256: str, reading: Reading) -> RowFile:
        """From the copy; `reading` opens the file itself where there is none. Raises `FilesUnavailable`."""
        with self._holding(sha256):
            path = self._folder / f"{sha256}.jsonl"
            if not path.exists():
                self._copy(reading, path)
            file = RowFile(path)
            os.utime(path, ns=(time.time_ns(), time.time_ns()))
            with self._lock:
                self._in_use[sha256] = file
        return file

    def trim(self) -> bool:
        """Whether there is still too much, for it is in use. Raises `FilesUnavailable`."""
        try:
            with self._lock:
                return self._trim()
        except OSError as error:
            raise FilesUnavailable(
                f"the copies of data sets can't be tidied up: {error}"
            ) from error

    @contextmanager
    def _holding(self, sha256: str) -> Generator[None]:
        with self._lock:
            self._held[sha256] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[sha256] -= 1

    def _copy(self, reading: Reading, path: Path) -> None:
        beside = path.with_name(f".{path.stem}.{secrets.token_hex(4)}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with reading() as source, beside.open("wb") as target:
                shutil.copyfileobj(source, target)
                os.fsync(target.fileno())
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise FilesUnavailable(f"a file of a data set can't be copied: {error}") from error

    def _trim(self) -> bool:
        found = [(path, path.stat()) for path in self._folder.iterdir()]
        n_bytes = sum(stat.st_size for _, stat in found)
        for path, stat in sorted(found, key=lambda one: one[1].st_mtime_ns):
            if n_bytes <= self._most_bytes:
                return False
            if self._is_free(path.name.removeprefix(".").partition(".")[0]):
                path.unlink()
                n_bytes -= stat.st_size
        return n_bytes > self._most_bytes

    def _is_free(self, sha256: str) -> bool:
        return not self._held[sha256] and sha256 not in self._in_use
