"""Asking a server again until it answers.

A server that says that it is busy is waited for, as long as the caller may take; one that does not answer
is given up after `patience_s`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0

ResultT = TypeVar("ResultT")


class AskAgain(Exception):
    """Not now. `is_busy`: the server says so itself. `is_there`: it answered, if not to the end."""

    def __init__(
        self, *, is_busy: bool = False, is_there: bool = False, pause_s: float = 0.0
    ) -> None:
        super().__init__()
        self.is_busy = is_busy
        self.is_there = is_there or is_busy
        self.pause_s = pause_s


async def patiently(
    ask: Callable[[], Awaitable[ResultT]], patience_s: float, failed: Callable[[], Exception]
) -> ResultT:
    """What `ask` gives once it raises no `AskAgain`, with growing pauses; else raises what `failed` makes."""
    loop = asyncio.get_running_loop()
    away_since_s, pause_s = math.inf, FIRST_PAUSE_S
    while True:
        asked_s = loop.time()
        try:
            return await ask()
        except AskAgain as again:
            away_since_s = math.inf if again.is_there else min(away_since_s, asked_s)
            if loop.time() - away_since_s >= patience_s:
                raise failed() from again
            await asyncio.sleep(min(max(pause_s, again.pause_s), LONGEST_PAUSE_S))
            pause_s *= 2
