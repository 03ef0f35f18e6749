"""How a child gives way to another one: what it has begun it ends, and what is new waits.

Invariant: nothing that waits is lost, and entries of one slot keep their order. Episodes that can be
replayed move with their next call; of others the child plays on, for `DRAIN_S` at least.
"""

import asyncio
from collections.abc import Collection, Sequence

from warren_env_worker.host.backlog import Entry

DRAIN_S = 60.0


class Replacement:
    """Begins once the child asks for it."""

    def __init__(self, *, moves_episodes: bool) -> None:
        self._moves_episodes = moves_episodes
        self.is_wanted = asyncio.Event()
        self.is_drained = asyncio.Event()
        self.waiting: list[Entry] = []
        """For the next child."""

    def for_this_child(self, entries: Sequence[Entry], held: Collection[int]) -> Sequence[Entry]:
        """Those that it still takes, which holds these slots; the others wait."""
        if not self.is_wanted.is_set():
            return entries
        taken: list[Entry] = []
        for entry in entries:
            (self.waiting if self._waits(entry, held) else taken).append(entry)
        return taken

    def _waits(self, entry: Entry, held: Collection[int]) -> bool:
        if isinstance(entry, int):
            return any(not isinstance(w, int) and w.slot == entry for w in self.waiting)
        return self._moves_episodes or entry.slot not in held

    def look(self, *, is_idle: bool, n_held: int) -> None:
        """Whether there is anything left that it must end."""
        if self.is_wanted.is_set() and is_idle and (self._moves_episodes or n_held == 0):
            self.is_drained.set()
