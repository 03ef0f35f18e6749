"""The bytes of a file, part by part, to the gateway."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

from warren.connection.transport import Transport
from warren_schemas.http import UploadProgress

PART_BYTES = 2 * 1024 * 1024


async def send_parts(
    transport: Transport, path: str, sha256: str, file: Path, received: int
) -> None:
    """What is behind so many bytes. Raises `GatewayError`, `OSError`."""
    parts, offset = _parts(file, received), received
    while part := await asyncio.to_thread(next, parts, None):
        query = urlencode({"sha256": sha256, "offset": offset})
        await transport.post_bytes(f"{path}?{query}", UploadProgress, part)
        offset += len(part)


def _parts(path: Path, received: int) -> Iterator[bytes]:
    """From this byte on."""
    with path.open("rb") as file:
        file.seek(received)
        while part := file.read(PART_BYTES):
            yield part
