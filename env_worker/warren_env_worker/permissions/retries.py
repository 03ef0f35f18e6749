"""Retries of requests to a server that is busy or away, or lost what it kept for us.

A server that says that it is busy is waited for, as long as the caller may take; one that does not answer
is given up after `patience_s`. Pauses grow up to `LONGEST_PAUSE_S`; a server that asks for a longer one gets it.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from pydantic import Field

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0
MAX_LOSSES = 3
"""In one call; then the server is no good."""
MAX_CALL_S = 600.0
"""What a call of an environment behind a server may take in all."""
OfCallS = Annotated[float, Field(gt=0, le=MAX_CALL_S)]
"""A time within such a call; a longer one would have no effect."""

ResultT = TypeVar("ResultT")


class RetryLater(Exception):
    """Not now.

    `is_busy`: the server says so itself. `is_refused`: it says that it did not begin. `is_there`: it answered, if not to the end.
    """

    def __init__(
        self,
        *,
        is_busy: bool = False,
        is_refused: bool = False,
        is_there: bool = False,
        pause_s: float = 0.0,
    ) -> None:
        super().__init__()
        self.is_busy = is_busy
        self.is_refused = is_refused
        self.is_there = is_there or is_busy
        self.pause_s = pause_s


class SessionLost(Exception):
    """The server has no such session any more, or nobody knows what happened in it.

    `pause_s`: after how long the server wants to be asked again.
    """

    def __init__(self, reason: str = "", *, pause_s: float = 0.0) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


async def with_retries(
    ask: Callable[[], Awaitable[ResultT]], patience_s: float, failed: Callable[[], Exception]
) -> ResultT:
    """What `ask` gives once it raises no `RetryLater`, with growing pauses; else raises what `failed` makes."""
    loop = asyncio.get_running_loop()
    away_since_s, n_asked = math.inf, 0
    while True:
        asked_s = loop.time()
        try:
            return await ask()
        except RetryLater as again:
            away_since_s = math.inf if again.is_there else min(away_since_s, asked_s)
            if loop.time() - away_since_s >= patience_s:
                raise failed() from again
            n_asked += 1
            await asyncio.sleep(pause_after(n_asked, again.pause_s))


async def unless_lost(
    ask: Callable[[], Awaitable[ResultT]],
    leave: Callable[[SessionLost], Awaitable[None]],
    failed: Callable[[], Exception],
) -> ResultT:
    """What `ask` gives once it raises no `SessionLost`; after the last of `MAX_LOSSES`, raises what `failed` makes.

    `leave` gives up what was lost, so that the next `ask` makes it anew. The pause that the server wants is kept only before
    another try: a wait before the failure would use up the caller's time, and hide the failure behind a timeout.
    """
    n_lost = 0
    while True:
        try:
            return await ask()
        except SessionLost as lost:
            await leave(lost)
            n_lost += 1
            if n_lost == MAX_LOSSES:
                raise failed() from lost
            await asyncio.sleep(lost.pause_s)


def pause_after(n_asked: int, asked_for_s: float) -> float:
    """How long to wait where so many tries failed, and the server asks for this."""
    grown_s = FIRST_PAUSE_S * 2 ** min(n_asked - 1, 10)
    return max(min(grown_s, LONGEST_PAUSE_S), asked_for_s)
