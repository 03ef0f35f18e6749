"""A file of rows to the gateway. Invariant: each part is whole lines."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

from warren.connection.transport import Transport
from warren.connection.uploading import upload_file
from warren.datasets.sources import Source, lines
from warren_schemas.http import UploadProgress

PART_BYTES = 512 * 1024
"""And the rest of a row."""
_PATH = "/v1/datasets/upload"


class _Part(NamedTuple):
    offset: int
    first_line: int
    data: bytes


async def upload(transport: Transport, source: Source, *, reconnect_s: float) -> None:
    """Raises `ConfigurationError`, `GatewayError`, `GatewayUnreachable`."""
    send_rest = partial(_send_rest, transport, source)
    await upload_file(transport, _PATH, source.file.sha256, send_rest, reconnect_s=reconnect_s)


async def _send_rest(transport: Transport, source: Source, received: int) -> None:
    parts = _parts(source, received)
    while part := await asyncio.to_thread(next, parts, None):
        query = {
            "sha256": source.file.sha256,
            "kind": source.kind.value,
            "offset": part.offset,
            "first_line": part.first_line,
        }
        await transport.post_bytes(f"{_PATH}?{urlencode(query)}", UploadProgress, part.data)


def _parts(source: Source, received: int) -> Iterator[_Part]:
    """From this byte on."""
    offset, first_line, gathered = 0, 1, bytearray()
    for number, line in enumerate(lines(source.path, source.kind), 1):
        if offset < received:  # it has come before
            offset += len(line) + 1
            continue
        first_line = first_line if gathered else number
        gathered += line + b"\n"
        if len(gathered) >= PART_BYTES:
            yield _Part(offset, first_line, bytes(gathered))
            offset += len(gathered)
            gathered.clear()
    if gathered:
        yield _Part(offset, first_line, bytes(gathered))
