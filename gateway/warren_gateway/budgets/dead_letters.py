"""How many dead letters an owner may have, and how large they may be together.

Invariant: the oldest of the same owner make place, so that nobody's hide, or push out, those of others. The newest of
an owner is always kept. Letters of which nobody can tell whose they are share one quota.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from warren_broker.topology import DEAD
from warren_schemas.users.budgets import BudgetView

MIB = 1024 * 1024
NOBODY = ""


@dataclass(frozen=True, slots=True)
class Letter:
    id: str
    owner: str
    """`NOBODY` where it can't be told."""
    size_bytes: int


class DeadLetterQuota:
    """Counts are those of the last look."""

    def __init__(self, *, per_owner: int, mib_per_owner: int) -> None:
        self._most, self._most_bytes = per_owner, mib_per_owner * MIB
        self._n = Counter[str]()
        self._bytes = Counter[str]()
        self._dropped = Counter[str]()

    def take_stock(self, letters: Sequence[Letter]) -> list[Letter]:
        """Those that are too many, of all that there are, oldest first."""
        self._n, self._bytes = Counter[str](), Counter[str]()
        excess, full = list[Letter](), set[str]()
        for letter in reversed(letters):
            if letter.owner in full or not self._has_place(letter):
                full.add(letter.owner)
                excess.append(letter)
        self._dropped.update(letter.owner for letter in excess)
        return excess[::-1]

    def views(self, owner: str) -> tuple[BudgetView, BudgetView]:
        """As this owner may see it."""
        return (
            BudgetView(
                name="dead letters",
                used=self._n[owner],
                limit=self._most,
                total_used=self._n.total(),
                total_limit=DEAD.max_messages,
                n_refused=self._dropped[owner],
            ),
            BudgetView(
                name="MiB of dead letters",
                used=_mib(self._bytes[owner]),
                limit=self._most_bytes // MIB,
                total_used=_mib(self._bytes.total()),
                total_limit=DEAD.max_messages * self._most_bytes // MIB,
                n_refused=self._dropped[owner],
            ),
        )

    def _has_place(self, letter: Letter) -> bool:
        """Whether it can stay beside the newer ones of its owner."""
        owner = letter.owner
        n, size_bytes = self._n[owner] + 1, self._bytes[owner] + letter.size_bytes
        if n > 1 and (n > self._most or size_bytes > self._most_bytes):
            return False
        self._n[owner], self._bytes[owner] = n, size_bytes
        return True


def _mib(n_bytes: int) -> int:
    return -(-n_bytes // MIB)
