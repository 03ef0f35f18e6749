"""Sending the files of a checkpoint or a policy.

Invariants
- An answer that could not be sent to its end is cut off, so that nobody takes a part for all.
- What can't be opened is told by a status: an answer begins with its first bytes in hand.
"""

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager

from aiohttp import web

from warren_gateway.api.problems import Refusal
from warren_gateway.folders import UnreadableFolder, read_file, read_folder
from warren_schemas.files import FileView, FolderView, NamedFolder
from warren_schemas.http import Problem

log = logging.getLogger(__name__)


async def readable(named: NamedFolder) -> FolderView:
    """Raises `Refusal`."""
    with refusing():
        return await read_folder(named)


@contextmanager
def refusing() -> Generator[None]:
    """What GPU workers have written and the gateway can't read is a `Refusal`."""
    try:
        yield
    except UnreadableFolder as error:
        hint = "Give the GPU workers --checkpoints that the gateway can read too, a bucket for example."
        problem = Problem(code="files_unreachable", message=f"{error}.", hint=hint)
        raise Refusal(409, problem) from error


async def sent_file(
    request: web.Request, folder: FolderView, file: FileView, offset: int = 0
) -> web.StreamResponse:
    """From this byte on; nothing from beyond its end. Raises `UnreadableFolder`, and then nothing is sent."""
    begin = min(offset, file.size_bytes)  # no file system seeks as far as a client may ask
    chunks = read_file(folder.url, file.name, begin)
    return await sent(request, chunks, file.size_bytes - begin, {"ETag": f'"{file.sha256}"'})


async def sent(
    request: web.Request,
    chunks: AsyncGenerator[bytes],
    size_bytes: int,
    headers: dict[str, str],
) -> web.StreamResponse:
    """Raises `UnreadableFolder`, and then nothing is sent."""
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream", **headers})
    response.content_length = size_bytes
    async with aclosing(chunks):
        first = await anext(chunks, b"")
        try:
            await response.prepare(request)
            await response.write(first)
            async for chunk in chunks:
                await response.write(chunk)
            await response.write_eof()
        except (UnreadableFolder, ConnectionResetError) as error:
            log.warning("a file was cut off: %s", error)
            if request.transport is not None:
                request.transport.abort()
    return response
