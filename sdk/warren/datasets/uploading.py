"""A file to the gateway, part by part.

Invariants: a part is whole lines; before the first one, and after each loss of the connection, the gateway says how
far the file has come, so nothing is sent twice that arrived, by whichever gateway.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

from warren.connection.transport import Transport
from warren.datasets.sources import Source, lines
from warren.errors import GatewayError, GatewayUnreachable
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
    waits, alive_s, reached = transport.backoff.delays(), time.monotonic(), -1
    while True:
        try:
            progress = await transport.get(
                f"{_PATH}?{urlencode({'sha256': source.file.sha256})}", UploadProgress
            )
            if progress.received_bytes > reached:
                reached = progress.received_bytes
                waits, alive_s = transport.backoff.delays(), time.monotonic()
            await _send_rest(transport, source, progress.received_bytes)
            return
        except (GatewayUnreachable, GatewayError) as error:
            if not _is_passing(error) or time.monotonic() - alive_s >= reconnect_s:
                raise
            await asyncio.sleep(next(waits))


def _is_passing(error: GatewayUnreachable | GatewayError) -> bool:
    """What is stored goes by nobody's waiting: its owner has to make room."""
    code = getattr(error, "code", "")
    return code == "upload_out_of_order" or (error.retryable and code != "over_budget")


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
    for number, line in enumerate(lines(source.path), 1):
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
