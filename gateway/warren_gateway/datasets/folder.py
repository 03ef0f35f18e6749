"""The files of data sets, below any fsspec URL.

`uploads/OWNER/SHA256/OFFSET` are parts of files that are being uploaded, `versions/ID/SPLIT.jsonl` the files of a
version. Nothing here is taken for whole because it is there: the store says which parts and versions count, so
what a gateway that died has left behind is never read. Everything here blocks.
"""

import errno
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from warren_gateway.datasets.problems import FilesUnavailable, FullFolder

_TRIES = 10
_FULL = (errno.ENOSPC, errno.EDQUOT)


def part(owner: str, sha256: str, offset: int) -> str:
    return f"{parts(owner, sha256)}/{offset:015d}"


def parts(owner: str, sha256: str) -> str:
    return f"uploads/{owner}/{sha256}"


def version(dataset: str) -> str:
    return f"versions/{dataset}"


def split_file(dataset: str, split: str) -> str:
    return f"{version(dataset)}/{split}.jsonl"


class StoredFile:
    """Its methods raise `FilesUnavailable`, `FullFolder`, as the folder's do."""

    def __init__(self, file: BinaryIO, what: str) -> None:
        self._file = file
        self._what = what

    def read(self, size: int = -1, /) -> bytes:
        with _told(self._what):
            return self._file.read(size)

    def write(self, data: bytes, /) -> int:
        with _told(self._what):
            return self._file.write(data)

    def close(self) -> None:
        with _told(self._what):
            self._file.close()


class Folder:
    """Methods raise `FilesUnavailable`, and those that write `FullFolder`."""

    def __init__(self, url: str, what: str = "data sets") -> None:
        """`what` it holds, for messages."""
        self._url = url
        self._what = what
        self._opened: tuple[Any, str] | None = None

    def write(self, name: str, data: bytes) -> None:
        with self.writing(name) as file:
            file.write(data)

    @contextmanager
    def writing(self, name: str) -> Generator[StoredFile]:
        with self._asked() as (files, root):
            path = f"{root}/{name}"
            files.makedirs(path.rpartition("/")[0], exist_ok=True)
            file: BinaryIO = files.open(path, "wb")
        with closing(StoredFile(file, self._what)) as stored:
            yield stored

    @contextmanager
    def reading(self, name: str) -> Generator[StoredFile]:
        with closing(self.open(name)) as file:
            yield file

    def open(self, name: str, offset: int = 0) -> StoredFile:
        with self._asked() as (files, root):
            file: BinaryIO = files.open(f"{root}/{name}", "rb")
            file.seek(offset)
        return StoredFile(file, self._what)

    def names(self, name: str) -> list[str]:
        """Of the files in a folder, sorted; none where it isn't there."""
        with self._asked() as (files, root):
            path = f"{root}/{name}"
            files.invalidate_cache(path)
            found: list[object] = []
            with suppress(FileNotFoundError):
                found = files.ls(path, detail=False)
        return sorted(str(each).rpartition("/")[2] for each in found)

    def remove(self, name: str) -> None:
        """A folder with what is in it, if it is there; others may do so at the same time."""
        with self._asked() as (files, root):
            path = f"{root}/{name}"
            for _ in range(_TRIES):
                files.invalidate_cache(path)
                if not files.exists(path):
                    return
                with suppress(FileNotFoundError):
                    files.rm(path, recursive=True)

    def url(self, name: str) -> str:
        """Where others find it."""
        return f"{self._url}/{name}"

    def local(self, name: str) -> Path | None:
        """Where the file lies on this machine; None where it lies elsewhere."""
        local: Any = import_module("fsspec.implementations.local")
        with self._asked() as (files, root):
            return Path(f"{root}/{name}") if isinstance(files, local.LocalFileSystem) else None

    @contextmanager
    def _asked(self) -> Generator[tuple[Any, str]]:
        with _told(self._what):
            if self._opened is None:
                core: Any = import_module("fsspec.core")  # has no types
                self._opened = core.url_to_fs(self._url)
            assert self._opened is not None
            yield self._opened


@contextmanager
def _told(what: str) -> Generator[None]:
    """Each kind of file system has errors of its own, and botocore's are no `OSError`."""
    try:
        yield
    except Exception as error:
        is_full = isinstance(error, OSError) and error.errno in _FULL
        kind = FullFolder if is_full else FilesUnavailable
        reason = f"{type(error).__name__}: {error}"
        raise kind(f"the folder of {what} can't be used: {reason}", what) from error
