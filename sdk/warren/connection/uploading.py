"""A file to the gateway, part by part.

Invariant: before the first part, and after each loss of the connection, the gateway says how far the file has come, so
nothing is sent twice that arrived, by whichever gateway.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from urllib.parse import urlencode

from warren.connection.transport import Transport
from warren.errors import GatewayError, GatewayUnreachable
from warren_schemas.http import UploadProgress


async def upload_file(
    transport: Transport,
    path: str,
    sha256: str,
    send_rest: Callable[[int], Coroutine[object, None, None]],
    *,
    reconnect_s: float,
) -> None:
    """`path` tells how far the file has come, and `send_rest` sends what is behind so many bytes.

    Raises `GatewayError`, `GatewayUnreachable`, and what `send_rest` raises.
    """
    waits, alive_s, reached = transport.backoff.delays(), time.monotonic(), -1
    while True:
        try:
            asked = f"{path}?{urlencode({'sha256': sha256})}"
            progress = await transport.get(asked, UploadProgress)
            if progress.received_bytes > reached:
                reached = progress.received_bytes
                waits, alive_s = transport.backoff.delays(), time.monotonic()
            await send_rest(progress.received_bytes)
            return
        except (GatewayUnreachable, GatewayError) as error:
            if not _is_passing(error) or time.monotonic() - alive_s >= reconnect_s:
                raise
            await asyncio.sleep(next(waits))


def _is_passing(error: GatewayUnreachable | GatewayError) -> bool:
    """What is stored goes by nobody's waiting: its owner has to make room."""
    code = getattr(error, "code", "")
    return code == "upload_out_of_order" or (error.retryable and code != "over_budget")
