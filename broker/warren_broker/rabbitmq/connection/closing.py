"""Closing channels of a server that may be stuck.

Invariants: any number of closings, one after the other, wait for `close_s` in all as long as none is
answered; and none is cut short. (aiormq would close a channel a second time, and a server that has
heard the first close takes the second for a breach of the protocol and hangs up.)
"""

import asyncio
from collections.abc import Awaitable


class Closings:
    """Those to one server."""

    def __init__(self, close_s: float) -> None:
        self.close_s = close_s
        self._under_way: set[asyncio.Future[tuple[object]]] = set()
        self._is_mute = False
        """One was waited for in vain, and nothing was answered since."""

    def begin(self, closing: Awaitable[object]) -> asyncio.Future[tuple[object]]:
        """Say it; done when it is answered, or the connection is lost."""
        leaving = asyncio.gather(closing, return_exceptions=True)
        self._under_way.add(leaving)
        leaving.add_done_callback(self._ended)
        return leaving

    async def close(self, closing: Awaitable[object]) -> None:
        """And wait for the answer, unless the server is one that does not answer."""
        leaving = self.begin(closing)
        done, _ = await asyncio.wait([leaving], timeout=0.0 if self._is_mute else self.close_s)
        self._is_mute = not done

    def _ended(self, leaving: asyncio.Future[tuple[object]]) -> None:
        self._under_way.discard(leaving)
        self._is_mute = False
