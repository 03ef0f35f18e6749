"""The files of data sets, below any fsspec URL.

`uploads/OWNER/SHA256/OFFSET` are parts of files that are being uploaded, `versions/ID/SPLIT.jsonl` the files of a
version. Nothing here is taken for whole because it is there: the store says which parts and versions count, so
what a gateway that died has left behind is never read. Everything here blocks.
"""

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from warren_gateway.datasets.problems import FilesUnavailable


def part(owner: str, sha256: str, offset: int) -> str:
    return f"{parts(owner, sha256)}/{offset:015d}"


def parts(owner: str, sha256: str) -> str:
    return f"uploads/{owner}/{sha256}"


def version(dataset: str) -> str:
    return f"versions/{dataset}"


def split_file(dataset: str, split: str) -> str:
    return f"{version(dataset)}/{split}.jsonl"


class Folder:
    """Methods raise `FilesUnavailable`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: tuple[Any, str] | None = None

    def write(self, name: str, data: bytes) -> None:
        with self.writing(name) as file:
            file.write(data)

    @contextmanager
    def writing(self, name: str) -> Generator[BinaryIO]:
        with self._asked() as (files, root):
            path = f"{root}/{name}"
            files.makedirs(path.rpartition("/")[0], exist_ok=True)
            file: BinaryIO = files.open(path, "wb")
        with file:
            yield file
            with self._asked():
                file.flush()

    def open(self, name: str, offset: int = 0) -> BinaryIO:
        with self._asked() as (files, root):
            file: BinaryIO = files.open(f"{root}/{name}", "rb")
            file.seek(offset)
        return file

    def names(self, name: str) -> list[str]:
        """Of the files in a folder, sorted; none where it isn't there."""
        with self._asked() as (files, root):
            path = f"{root}/{name}"
            files.invalidate_cache(path)
            found: list[object] = files.ls(path, detail=False) if files.exists(path) else []
        return sorted(str(each).rpartition("/")[2] for each in found)

    def remove(self, name: str) -> None:
        """A folder with what is in it, if it is there."""
        with self._asked() as (files, root):
            path = f"{root}/{name}"
            files.invalidate_cache(path)
            if files.exists(path):
                files.rm(path, recursive=True)

    def local(self, name: str) -> Path | None:
        """Where the file lies on this machine; None where it lies elsewhere."""
        local: Any = import_module("fsspec.implementations.local")
        with self._asked() as (files, root):
            return Path(f"{root}/{name}") if isinstance(files, local.LocalFileSystem) else None

    @contextmanager
    def _asked(self) -> Generator[tuple[Any, str]]:
        """Each kind of file system has errors of its own, and botocore's are no `OSError`."""
        try:
            if self._opened is None:
                core: Any = import_module("fsspec.core")  # has no types
                self._opened = core.url_to_fs(self._url)
            assert self._opened is not None
            yield self._opened
        except Exception as error:
            raise FilesUnavailable(
                f"the folder of data sets can't be used: {type(error).__name__}: {error}"
            ) from error
