"""Copies of sealed folders, made through the gateway.

Invariants: a copy has its seal last, so that no reader takes a part for the whole; what is not as it was sealed is
not copied; what a copy was made of may go at any moment, and then there is none.
"""

import asyncio
import hashlib
import os
from threading import Event

from warren_gateway.datasets.folder import Folder
from warren_gateway.folders import UnreadableFolder, open_file, read_chunk
from warren_schemas.files import SEAL, FileView, FolderView


async def copy_folder(folder: FolderView, files: Folder, name: str) -> int:
    """The bytes of the files, which are in `files` under this name then. What was begun stays where it raises.

    Raises `UnreadableFolder`, `FilesUnavailable`, `FullFolder`.
    """
    is_unwanted = Event()
    try:
        return await asyncio.to_thread(_copy, folder, files, name, is_unwanted)
    except asyncio.CancelledError:
        is_unwanted.set()
        raise


def _copy(folder: FolderView, files: Folder, name: str, is_unwanted: Event) -> int:
    n_bytes = sum(_copy_file(folder.url, file, files, name, is_unwanted) for file in folder.files)
    seal = "".join(f"{file.sha256}  {file.name}\n" for file in folder.files)
    files.write(f"{name}/{SEAL}", seal.encode())
    for written in (*(file.name for file in folder.files), SEAL, ".", "..", "../.."):
        _sync(files, f"{name}/{written}")
    return n_bytes


def _copy_file(url: str, file: FileView, files: Folder, name: str, is_unwanted: Event) -> int:
    digest, n_bytes = hashlib.sha256(), 0
    with (
        open_file(f"{url}/{file.name}", 0) as source,
        files.writing(f"{name}/{file.name}") as written,
    ):
        while chunk := read_chunk(source, url):
            if is_unwanted.is_set():
                raise UnreadableFolder("nobody waits for the copy any more")
            digest.update(chunk)
            n_bytes += written.write(chunk)
    if digest.hexdigest() != file.sha256:
        raise UnreadableFolder(f"{file.name} of {url} is not what was written")
    return n_bytes


def _sync(files: Folder, name: str) -> None:
    """Where it is a disk of this machine, that has it also when the power goes."""
    path = files.local(name)
    if path is None:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
