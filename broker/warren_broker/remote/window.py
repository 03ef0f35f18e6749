"""The window: how much may be under way to the gateway at once.

Invariants: never more calls than the gateway allows, and never more bytes of bodies, but one call is
always let through; who waits is let in first come, first served, and leaves the line when cancelled.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Window:
    def __init__(self, max_calls: int, max_bytes: int) -> None:
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._n_calls = 0
        self._n_bytes = 0
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def enter(self, n_bytes: int) -> AsyncGenerator[None]:
        if self._line or not self._fits(n_bytes):
            await self._wait(n_bytes)
        else:
            self._take(n_bytes)
        try:
            yield
        finally:
            self._give(n_bytes)

    async def _wait(self, n_bytes: int) -> None:
        let_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((n_bytes, let_in))
        try:
            await let_in
        except asyncio.CancelledError:
            if let_in.done() and not let_in.cancelled():
                self._give(n_bytes)
            else:
                with contextlib.suppress(ValueError):  # it may have been passed over already
                    self._line.remove((n_bytes, let_in))
                self._let_in()
            raise

    def _fits(self, n_bytes: int) -> bool:
        return not self._n_calls or (
            self._n_calls < self._max_calls and self._n_bytes + n_bytes <= self._max_bytes
        )

    def _take(self, n_bytes: int) -> None:
        self._n_calls += 1
        self._n_bytes += n_bytes

    def _give(self, n_bytes: int) -> None:
        self._n_calls -= 1
        self._n_bytes -= n_bytes
        self._let_in()

    def _let_in(self) -> None:
        while self._line and self._fits(self._line[0][0]):
            n_bytes, let_in = self._line.popleft()
            if not let_in.done():
                self._take(n_bytes)
                let_in.set_result(None)
