"""Reading the folders of checkpoints and policies, wherever fsspec reaches.

Invariants: only what a folder's seal names is read, so no name leads out of it; a folder without a
seal is not there; nothing here blocks the event loop.
"""

import asyncio
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any, BinaryIO

from warren_schemas.files import SEAL, FileView, FolderView, NamedFolder

CHUNK_BYTES = 1024 * 1024
LARGEST_SEAL_BYTES = 1024 * 1024


class UnreadableFolder(Exception):
    """The gateway can't read it; says why."""


async def read_folder(named: NamedFolder) -> FolderView:
    """What its seal says. Raises `UnreadableFolder`."""
    return await asyncio.to_thread(_read_folder, named)


async def read_file(url: str, name: str, offset: int) -> AsyncGenerator[bytes]:
    """The bytes from this offset on of a file that the seal names. Raises `UnreadableFolder`."""
    file = await asyncio.to_thread(open_file, f"{url}/{name}", offset)
    try:
        while chunk := await asyncio.to_thread(read_chunk, file, url):
            yield chunk
    finally:
        await asyncio.to_thread(file.close)


def read_chunk(file: BinaryIO, url: str) -> bytes:
    """Of a file of this folder; nothing at its end. Raises `UnreadableFolder`."""
    try:
        return file.read(CHUNK_BYTES)
    except OSError as error:
        raise UnreadableFolder(f"{url} can't be read to its end: {error}") from error


def _read_folder(named: NamedFolder) -> FolderView:
    url = named.url
    with open_file(f"{url}/{SEAL}", 0) as file:
        seal = file.read(LARGEST_SEAL_BYTES).decode(errors="replace")
    try:
        files = [_file(url, *line.split("  ", 1)) for line in seal.splitlines() if line]
    except (TypeError, ValueError) as error:
        raise UnreadableFolder(f"the {SEAL} of {url} can't be read") from error
    return FolderView(version=named.version, url=url, files=tuple(files))


def _file(url: str, sha256: str, name: str) -> FileView:
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError(name)
    return FileView(name=name, size_bytes=_size(f"{url}/{name}"), sha256=sha256)


def _size(url: str) -> int:
    fs, path = _found(url)
    try:
        return int(fs.size(path))
    except OSError as error:
        raise UnreadableFolder(f"{url} can't be read from here: {error}") from error


def open_file(url: str, offset: int) -> BinaryIO:
    """At this byte. Raises `UnreadableFolder`."""
    fs, path = _found(url)
    try:
        file: BinaryIO = fs.open(path, "rb")
        file.seek(offset)
    except OSError as error:
        raise UnreadableFolder(f"{url} can't be read from here: {error}") from error
    return file


def _found(url: str) -> tuple[Any, str]:
    core: Any = import_module("fsspec.core")  # has no types
    try:
        fs, path = core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UnreadableFolder(f"{url} can't be read from here: {error}") from error
    return fs, path
