"""The order in which samples of one owner that were refused, since enough of theirs wait for answers, may try again.

Invariants
- A smaller sample does not pass a larger one that came first: else each place that becomes free would go to whatever is
  small enough for it, and a sample that needs many at once would never find them free.
- Samples of one size never hold each other up, for clients come again in any order.
- A client that has not come again for `PATIENCE_S` has given its turn up.
- An owner has `MOST_TURNS` turns: each request looks at all of them, on the event loop. Who comes while there are so many
  passes none of those, and may itself be passed until it finds a turn free.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from warren_gateway.budgets.budget import Budget, OverBudget

PATIENCE_S = 60.0
MOST_TURNS = 1024


class RetryQueue:
    """`budget` is of the answers that owners wait for; `now_s` is a clock that is never set."""

    def __init__(self, budget: Budget, now_s: Callable[[], float] = time.monotonic) -> None:
        self._budget = budget
        self._now_s = now_s
        self._waiting: dict[str, dict[str, int]] = {}
        """By owner and name, for how many answers; those that came first before others."""
        self._seen_s = OrderedDict[tuple[str, str], float]()
        """The same of all owners, and when they came last: the earliest first."""

    def require(self, owner: str, name: str, n_answers: int) -> None:
        """Raises `OverBudget` where there would be no place for the larger ones that came first."""
        self._forget()
        n_first = self._n_first(owner, name, n_answers)
        budget = self._budget.view(owner)
        if n_first and n_first + n_answers > budget.limit - budget.used:
            self.refused(owner, name, n_answers)
            raise OverBudget(f"You asked for {n_first} answers before, which wait for their places")

    def refused(self, owner: str, name: str, n_answers: int) -> None:
        """It keeps its turn, for its client comes again."""
        self._forget()
        waiting = self._waiting.setdefault(owner, {})
        if name in waiting or len(waiting) < MOST_TURNS:
            waiting.setdefault(name, n_answers)
            self._seen_s[owner, name] = self._now_s()
            self._seen_s.move_to_end((owner, name))

    def taken(self, owner: str, name: str) -> None:
        """It has its places."""
        if self._seen_s.pop((owner, name), None) is not None:
            self._drop(owner, name)

    def _n_first(self, owner: str, name: str, n_answers: int) -> int:
        """Answers of the larger ones that came before this one."""
        n_first = 0
        for other, n in self._waiting.get(owner, {}).items():
            if other == name:
                break
            if n > n_answers:
                n_first += n
        return n_first

    def _forget(self) -> None:
        """Those of all owners that gave their turns up."""
        since_s = self._now_s() - PATIENCE_S
        while self._seen_s and next(iter(self._seen_s.values())) < since_s:
            (owner, name), _ = self._seen_s.popitem(last=False)
            self._drop(owner, name)

    def _drop(self, owner: str, name: str) -> None:
        del self._waiting[owner][name]
        if not self._waiting[owner]:
            del self._waiting[owner]
