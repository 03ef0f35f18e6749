"""Retries while the gateway is away or busy."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from warren.errors import GatewayBusy, GatewayUnreachable

PATIENCE_S = 600.0
"""How long it may be away while somebody waits."""
PAUSE_S = 1.0

T = TypeVar("T")


async def with_retries(ask: Callable[[], Awaitable[T]]) -> T:
    """Only for what may be asked twice. Raises `GatewayUnreachable`, `GatewayBusy` when the patience is over."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await ask()
        except (GatewayUnreachable, GatewayBusy):
            if time.monotonic() > until_s:
                raise
        await asyncio.sleep(PAUSE_S)
