"""The files of a folder as one tar, made while it is sent."""

import tarfile
from collections.abc import AsyncGenerator

from warren_gateway.folders import read_file
from warren_schemas.files import FileView, FolderView

_END = bytes(2 * tarfile.BLOCKSIZE)


def tar_bytes(folder: FolderView) -> int:
    """How long it is."""
    each = (len(_head(file)) + file.size_bytes + _n_filled(file) for file in folder.files)
    return sum(each) + len(_END)


async def tar_of(folder: FolderView) -> AsyncGenerator[bytes]:
    """Raises `UnreadableFolder`."""
    for file in folder.files:
        yield _head(file)
        async for chunk in read_file(folder.url, file.name, 0):
            yield chunk
        yield bytes(_n_filled(file))
    yield _END


def _head(file: FileView) -> bytes:
    info = tarfile.TarInfo(file.name)
    info.size = file.size_bytes
    return info.tobuf(tarfile.PAX_FORMAT)


def _n_filled(file: FileView) -> int:
    return -file.size_bytes % tarfile.BLOCKSIZE
