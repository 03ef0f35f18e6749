"""Sealed folders: a folder of files that is either whole or counts as not there.

Policies and checkpoints are sealed folders on any fsspec URL (a plain path is one too). The seal is
the file `SHA256SUMS`, in the format of `sha256sum -c`. It names every file and is in place last.

Invariants:
- A folder without a seal is not there for any reader; one whose files differ from the seal is
  refused. So a writer may die at any line.
- What a new folder replaces is set aside first, as `<name>~previous`, and only removed once the new
  one is sealed; readers fall back to it. So one of the two is whole at every moment.
- On a local disk the folder appears under its name by one rename, already sealed.
- Whoever waits is told of every step over files before it begins (see `progress`).
"""

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol, TypedDict, cast

from fsspec.callbacks import Callback  # pyright: ignore[reportMissingTypeStubs]
from fsspec.core import (  # pyright: ignore[reportMissingTypeStubs]
    url_to_fs,  # pyright: ignore[reportUnknownVariableType]
)
from fsspec.implementations.local import (  # pyright: ignore[reportMissingTypeStubs]
    LocalFileSystem,
)

from warren_gpu_worker.file_progress import Progress, unheard
from warren_gpu_worker.ranged_download import PART_BYTES, fetch_in_parts

SEAL = "SHA256SUMS"
_PREVIOUS = "~previous"
_PARTIAL = ".partial-"
_N_DIGESTS = 4
"""Files at once."""


class _Entry(TypedDict):
    name: str
    size: int | None
    """None where the store doesn't say."""


class _FileSystem(Protocol):
    """What is used of `fsspec.AbstractFileSystem`, which has no types."""

    def exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def glob(self, path: str) -> list[str]: ...
    def ls(self, path: str, detail: bool) -> list[_Entry]: ...
    def makedirs(self, path: str, exist_ok: bool) -> None: ...
    def mv(self, path1: str, path2: str, *, recursive: bool) -> None: ...
    def rm(self, path: str, *, recursive: bool) -> None: ...
    def put_file(self, lpath: str, rpath: str, callback: Callback) -> None: ...
    def cat_file(self, path: str, start: int, end: int) -> bytes: ...
    def get_file(self, rpath: str, lpath: str, callback: Callback) -> None: ...


class FolderUnreadable(Exception):
    """The folder is not there, not whole, or its files are not what was written."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.url} {self.reason}"


def join_url(url: str, *parts: str) -> str:
    """A URL below another one."""
    return "/".join((url.rstrip("/"), *parts))


def write_folder(
    url: str,
    write: Callable[[Path], object],
    *,
    durable: bool = False,
    progress: Progress = unheard,
) -> int:
    """Let `write` fill an empty local folder, seal it and put it at `url`; its size in bytes.

    `durable` also waits until a local disk has it. Raises `OSError`.
    """
    fs, path = _open(url)
    if not _is_local(fs):
        with tempfile.TemporaryDirectory() as stage:
            write(Path(stage))
            return put_folder(url, Path(stage), progress)
    stage = _stage_beside(Path(path))
    try:
        write(stage)
        size_bytes = _seal(stage, progress)
        if durable:
            _sync(stage, progress)
        _set_aside(fs, path)
        os.rename(stage, path)
        if durable:
            _sync_one(Path(path).parent, progress)
        _remove(fs, path + _PREVIOUS)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return size_bytes


def put_folder(url: str, folder: Path, progress: Progress = unheard) -> int:
    """Seal a local folder and copy it to `url`, a place elsewhere; its size in bytes.

    Raises `OSError`.
    """
    fs, path = _open(url)
    size_bytes = _seal(folder, progress)
    progress(size_bytes)  # a store may move what has the name by copying it
    _set_aside(fs, path)
    _upload(fs, folder, path, progress)
    _remove(fs, path + _PREVIOUS)
    return size_bytes


def place_on_disk(url: str) -> Path | None:
    """Where that is on a disk of this host; None: it is elsewhere."""
    fs, path = _open(url)
    return Path(path) if _is_local(fs) else None


@contextmanager
def open_folder(url: str, progress: Progress = unheard) -> Generator[Path]:
    """The verified files in a local folder, to be read while the context lasts.

    Raises `FolderUnreadable`, and `OSError` when the place itself can't be reached.
    """
    fs, path = _open(url)
    whole = next((p for p in (path, path + _PREVIOUS) if fs.exists(f"{p}/{SEAL}")), None)
    if whole is None:
        raise FolderUnreadable(url, "is not there, or was never finished")
    if _is_local(fs):
        _verify(url, Path(whole), progress)
        yield Path(whole)
        return
    with tempfile.TemporaryDirectory() as local:
        _download(fs, whole, Path(local), progress)
        _verify(url, Path(local), progress)
        yield Path(local)


def fetch_unsealed(
    url: str, names: Iterable[str], folder: Path, progress: Progress = unheard
) -> None:
    """Copy these files of somebody else's folder, which nobody sealed. Raises `OSError`."""
    fs, path = _open(url)
    for name in names:
        fs.get_file(f"{path}/{name}", str(folder / name), callback=_each_piece(progress))


def file_sizes(url: str, names: Iterable[str]) -> list[int]:
    """In bytes, of these files of a folder. Raises `OSError`."""
    fs, path = _open(url)
    return [fs.size(f"{path}/{name}") for name in names]


def delete_folder(url: str) -> None:
    """Remove the folder; no error when it is not there."""
    fs, path = _open(url)
    _remove(fs, path)


def list_folders(url: str) -> list[str]:
    """The names of the sealed folders below `url`; empty when there is nothing."""
    fs, path = _open(url)
    names = [PurePosixPath(p).parent.name for p in fs.glob(f"{path}/*/{SEAL}")]
    return sorted(name for name in names if not _is_leftover(name))


def sweep(url: str) -> None:
    """Remove what writers that died below `url` left behind; nobody else may be writing there."""
    fs, path = _open(url)
    if not _is_local(fs) or not fs.exists(path):
        return
    for entry in Path(path).iterdir():
        successor = entry.with_name(entry.name.removesuffix(_PREVIOUS)) / SEAL
        is_replaced = entry.name.endswith(_PREVIOUS) and successor.exists()
        if _PARTIAL in entry.name or is_replaced:
            shutil.rmtree(entry, ignore_errors=True)


def _is_leftover(name: str) -> bool:
    return name.endswith(_PREVIOUS) or _PARTIAL in name


def _open(url: str) -> tuple[_FileSystem, str]:
    fs, path = cast("tuple[_FileSystem, str]", url_to_fs(url))
    return fs, path.rstrip("/")


def _is_local(fs: _FileSystem) -> bool:
    return isinstance(fs, LocalFileSystem)


def _stage_beside(path: Path) -> Path:
    """On the same disk, so that a rename can move it."""
    stage = path.with_name(f".{path.name}{_PARTIAL}{secrets.token_hex(4)}")
    stage.mkdir(parents=True)
    return stage


def _seal(folder: Path, progress: Progress) -> int:
    files = sorted(folder.iterdir())
    digests = _digests(files, progress)
    lines = [f"{digest}  {file.name}\n" for file, digest in zip(files, digests, strict=True)]
    size_bytes = sum(file.stat().st_size for file in files)
    (folder / SEAL).write_text("".join(lines))
    return size_bytes


def _digests(files: Sequence[Path], progress: Progress) -> list[str]:
    """Side by side: of large files it takes as long as writing them."""
    progress(sum(file.stat().st_size for file in files))
    with ThreadPoolExecutor(_N_DIGESTS, thread_name_prefix="digest") as pool:
        return list(pool.map(_digest, files))


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _verify(url: str, folder: Path, progress: Progress) -> None:
    try:
        lines = [line.split("  ", 1) for line in (folder / SEAL).read_text().splitlines()]
        found = _digests([folder / name for _, name in lines], progress)
        for (digest, name), own in zip(lines, found, strict=True):
            if own != digest:
                raise FolderUnreadable(url, f"is damaged: {name} is not what was written")
    except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError) as error:
        raise FolderUnreadable(url, f"is damaged: {error}") from error


def _sync(folder: Path, progress: Progress) -> None:
    for path in (*folder.iterdir(), folder):
        _sync_one(path, progress)


def _sync_one(path: Path, progress: Progress) -> None:
    progress(path.stat().st_size)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _set_aside(fs: _FileSystem, path: str) -> None:
    """Make the name free; what was whole under it stays readable."""
    if fs.exists(f"{path}/{SEAL}"):
        _remove(fs, path + _PREVIOUS)
        fs.mv(path, path + _PREVIOUS, recursive=True)
    else:
        _remove(fs, path)


def _upload(fs: _FileSystem, stage: Path, path: str, progress: Progress) -> None:
    fs.makedirs(path, exist_ok=True)
    files = sorted(stage.iterdir(), key=lambda file: (file.name == SEAL, file.name))
    for file in files:
        progress(file.stat().st_size)
        fs.put_file(str(file), f"{path}/{file.name}", callback=_each_piece(progress))


def _download(fs: _FileSystem, path: str, folder: Path, progress: Progress) -> None:
    for entry in fs.ls(path, detail=True):
        name, size_bytes = PurePosixPath(entry["name"]).name, entry["size"] or 0
        progress(size_bytes)
        if size_bytes > PART_BYTES:
            fetch_in_parts(fs, entry["name"], folder / name, size_bytes, progress)
        else:
            fs.get_file(entry["name"], str(folder / name), callback=_each_piece(progress))


def _each_piece(progress: Progress) -> Callback:
    """Some stores call it from a thread of theirs, while the one that asked waits for them."""

    def moved(*_: object, **__: object) -> None:
        progress()

    return Callback(hooks={"moved": moved})


def _remove(fs: _FileSystem, path: str) -> None:
    if fs.exists(path):
        fs.rm(path, recursive=True)
