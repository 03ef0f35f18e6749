"""What waits for a child process: requests, and slots to close.

Suspects are requests of which one has killed a child, nobody knows which: they go one at a time,
before all others, so that the next death tells.
"""

import asyncio
from collections import deque
from collections.abc import Iterable

from warren_env_worker.host.request import Request

MAX_BATCH = 256
"""Most entries taken at once."""

Entry = Request | int
"""A request, or the slot of an episode to close."""


class Backlog:
    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._suspects: deque[Request] = deque()
        self._filled = asyncio.Event()

    def put(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._filled.set()

    def put_back(self, requests: Iterable[Request], *, as_suspects: bool) -> None:
        """Before all others, in their order."""
        if as_suspects:
            self._suspects.extendleft(reversed(list(requests)))
        else:
            self.put_first(requests)
        self._notice()

    def put_first(self, entries: Iterable[Entry]) -> None:
        """Before all others but suspects, in their order."""
        self._entries.extendleft(reversed(list(entries)))
        self._notice()

    @property
    def is_empty(self) -> bool:
        return not (self._entries or self._suspects)

    async def filled(self) -> None:
        """Wait until there is something."""
        await self._filled.wait()

    def take_suspect(self) -> Request | None:
        suspect = self._suspects.popleft() if self._suspects else None
        self._notice()
        return suspect

    def take(self) -> list[Entry]:
        """What waits, up to `MAX_BATCH`."""
        n_taken = min(len(self._entries), MAX_BATCH)
        taken = [self._entries.popleft() for _ in range(n_taken)]
        self._notice()
        return taken

    def drain(self) -> list[Request]:
        """All requests; slots need no closing when there is no child."""
        waiting = [*self._suspects, *(e for e in self._entries if isinstance(e, Request))]
        self._suspects.clear()
        self._entries.clear()
        self._notice()
        return waiting

    def _notice(self) -> None:
        if self.is_empty:
            self._filled.clear()
        else:
            self._filled.set()
