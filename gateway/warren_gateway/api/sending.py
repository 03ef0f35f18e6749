"""Sending the files of a checkpoint or a policy.

Invariant: an answer that could not be sent to its end is cut off, so that nobody takes a part for all.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import web

from warren_gateway.api.problems import Refusal
from warren_gateway.folders import UnreadableFolder, read_file, read_folder
from warren_schemas.files import FileView, FolderView, NamedFolder
from warren_schemas.http import Problem

log = logging.getLogger(__name__)


async def readable(named: NamedFolder) -> FolderView:
    """Raises `Refusal`."""
    try:
        return await read_folder(named)
    except UnreadableFolder as error:
        raise unreadable(error) from error


async def sent_file(
    request: web.Request, folder: FolderView, file: FileView, offset: int = 0
) -> web.StreamResponse:
    """From this byte on. Raises `Refusal`."""
    size_bytes = max(0, file.size_bytes - offset)
    chunks = read_file(folder.url, file.name, offset)
    return await sent(request, chunks, size_bytes, {"ETag": f'"{file.sha256}"'})


async def sent(
    request: web.Request,
    chunks: AsyncGenerator[bytes],
    size_bytes: int,
    headers: dict[str, str],
) -> web.StreamResponse:
    """Raises `Refusal`."""
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream", **headers})
    response.content_length = size_bytes
    async with aclosing(chunks):
        try:
            await response.prepare(request)
            async for chunk in chunks:
                await response.write(chunk)
            await response.write_eof()
        except (UnreadableFolder, ConnectionResetError) as error:
            if not response.prepared:
                raise unreadable(error) from error
            log.warning("a file was cut off: %s", error)
            if request.transport is not None:
                request.transport.abort()
    return response


def unreadable(error: Exception) -> Refusal:
    hint = "Give the GPU workers --checkpoints that the gateway can read too, a bucket for example."
    return Refusal(409, Problem(code="files_unreachable", message=f"{error}.", hint=hint))
