"""Scans dead letters one at a time, so that only one body is in memory."""

import asyncio
from collections.abc import AsyncIterable, Callable

from warren_broker.port import DeadLetter, SeenT

LARGE_BYTES = 16 * 1024
"""A larger body is looked at in a thread: the event loop has others to serve."""


async def look_at_each(
    letters: AsyncIterable[DeadLetter], look: Callable[[DeadLetter], SeenT | None], max_bytes: int
) -> list[SeenT]:
    """What `look` makes of each, but None, oldest first; up to the one that makes it `max_bytes`."""
    seen: list[tuple[float, SeenT]] = []
    n_bytes = 0
    async for letter in letters:
        is_large = len(letter.body) > LARGE_BYTES
        found = await asyncio.to_thread(look, letter) if is_large else look(letter)
        if found is not None:
            seen.append((letter.first_seen_s, found))
        n_bytes += len(letter.body)
        if n_bytes >= max_bytes:
            break
    seen.sort(key=lambda pair: pair[0])
    return [found for _, found in seen]
