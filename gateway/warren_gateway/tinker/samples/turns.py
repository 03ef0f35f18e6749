"""Whose turn it is among samples of one owner that were refused, for the owner waits for enough answers.

Invariants
- A smaller sample does not pass a larger one that came first: else each place that becomes free would go to whatever is
  small enough for it, and a sample that needs many at once would never find them free.
- Samples of one size never hold each other up, for clients come again in any order.
- A client that has not come again for `PATIENCE_S` has given its turn up.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from warren_gateway.budgets.budget import Budget, OverBudget

PATIENCE_S = 60.0


@dataclass(slots=True)
class _Refused:
    n_answers: int
    seen_s: float


class Turns:
    """`budget` is of the answers that owners wait for; `now_s` is a clock that is never set."""

    def __init__(self, budget: Budget, now_s: Callable[[], float] = time.monotonic) -> None:
        self._budget = budget
        self._now_s = now_s
        self._refused = defaultdict[str, dict[str, _Refused]](dict)
        """By owner and name, those that came first before others."""

    def require(self, owner: str, name: str, n_answers: int) -> None:
        """Raises `OverBudget` where there would be no place for the larger ones that came first."""
        if owner not in self._refused:
            return
        first = takewhile(lambda item: item[0] != name, self._waiting(owner).items())
        n_first = sum(one.n_answers for _, one in first if one.n_answers > n_answers)
        budget = self._budget.view(owner)
        if n_first and n_first + n_answers > budget.limit - budget.used:
            self.refused(owner, name, n_answers)
            raise OverBudget(f"You asked for {n_first} answers before, which wait for their places")

    def refused(self, owner: str, name: str, n_answers: int) -> None:
        """It keeps its turn, for its client comes again."""
        one = self._refused[owner].setdefault(name, _Refused(n_answers, 0.0))
        one.seen_s = self._now_s()

    def taken(self, owner: str, name: str) -> None:
        """It has its places."""
        if owner in self._refused:
            self._refused[owner].pop(name, None)
            self._waiting(owner)

    def _waiting(self, owner: str) -> dict[str, _Refused]:
        since_s = self._now_s() - PATIENCE_S
        waiting = {n: one for n, one in self._refused.pop(owner).items() if one.seen_s >= since_s}
        if waiting:
            self._refused[owner] = waiting
        return waiting
