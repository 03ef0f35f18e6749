"""The order in which recorded groups are trained on: drawn from a window of those that were read.

Invariants
- Which one is drawn follows from the seed, the epoch and the groups that are held, and from nothing else. Those are
  the first so many that were not drawn, in the order in which they were completed: so the order is a function of
  seed, epoch and recording, however often it is read, and however fast.
- A window that is filled again with what was not consumed draws what the one before it would have drawn.
"""

import hashlib

from warren_gateway.coordinator.state.groups import Group

MOST_BYTES = 256 * 2**20
"""A window that holds as much is full, of however few groups: gateways hold those of many runs."""


class Window:
    def __init__(self, seed: int, n_groups: int) -> None:
        """With one group, each is drawn at once: in the order in which they come."""
        self.held: list[Group] = []
        self._seed = seed
        self._n_groups = n_groups
        self._n_bytes = 0

    def put(self, group: Group) -> list[Group]:
        """Hold one more of this epoch; those that are drawn for it."""
        self.held.append(group)
        self._n_bytes += group.size_bytes
        drawn: list[Group] = []
        while self.held and (len(self.held) >= self._n_groups or self._n_bytes >= MOST_BYTES):
            drawn.append(self._draw())
        return drawn

    def empty(self) -> list[Group]:
        """Nothing more comes in this epoch, or stage: all that are held, as they are drawn."""
        return [self._draw() for _ in range(len(self.held))]

    def _draw(self) -> Group:
        newest, n = self.held[-1], len(self.held)
        what = f"{self._seed}/{newest.provenance.reading.epoch}/{newest.id}/{n}"
        number = int.from_bytes(hashlib.blake2b(what.encode(), digest_size=8).digest())
        group = self.held.pop(number % n)
        self._n_bytes -= group.size_bytes
        return group
