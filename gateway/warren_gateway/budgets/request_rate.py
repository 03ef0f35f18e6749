"""How many requests a second one owner may send, with bursts.

The generic cell rate algorithm (ITU-T I.371): of each owner one number is kept, the time at which the
requests of so far would have come at the allowed rate. Whoever is ahead of it by more than a burst waits.

Invariants
- Over any time, an owner's requests that pass are no more than the rate allows for it and one burst.
- A refused request costs nothing: whoever waits as long as told passes.
- What is kept is bounded by the owners who have sent something within the last burst.
"""

import math
import time
from collections import Counter
from collections.abc import Callable

from warren_schemas.users.budgets import BudgetView

PRUNED_AT = 4096
"""Owners; by then those whose requests are long over are forgotten, and how often they were refused."""


class TooManyRequests(Exception):
    """This owner sends faster than may be."""

    def __init__(self, per_s: float, wait_s: float) -> None:
        super().__init__(f"You send more than {per_s:g} requests a second")
        self.wait_s = wait_s


class RequestRate:
    def __init__(
        self, *, per_s: float, burst: int, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst_s = burst / per_s
        self._now_s = now_s
        self._due_s: dict[str, float] = {}
        self._n_refused = Counter[str]()
        self._pruned_at = PRUNED_AT

    def count(self, owner: str, own_per_s: float | None = None) -> None:
        """Let one request pass; `own_per_s` is the owner's own rate. Raises `TooManyRequests`."""
        per_s = own_per_s or self._per_s
        now_s = self._now_s()
        due_s = max(self._due_s.get(owner, now_s), now_s) + 1 / per_s
        ahead_s = due_s - now_s - max(self._burst_s, 1 / per_s)
        if ahead_s > 1e-9:
            self._n_refused[owner] += 1
            raise TooManyRequests(per_s, ahead_s)
        self._due_s[owner] = due_s
        if len(self._due_s) > self._pruned_at:
            self._prune(now_s)

    def n_refused(self, owner: str) -> int:
        return self._n_refused[owner]

    def view(self, what: str, owner: str, own_per_s: float | None = None) -> BudgetView:
        """As this owner may see it: of a burst, what is in use yet."""
        per_s, now_s = own_per_s or self._per_s, self._now_s()
        ahead_s = {name: max(0.0, due - now_s) for name, due in self._due_s.items()}
        return BudgetView(
            name=f"{what} at once, beside {per_s:g} a second",
            used=math.ceil(ahead_s.get(owner, 0.0) * per_s),
            limit=max(1, round(self._burst_s * per_s)),
            total_used=math.ceil(sum(ahead_s.values()) * self._per_s),
            total_limit=None,
            n_refused=self._n_refused[owner],
        )

    def _prune(self, now_s: float) -> None:
        """Seldom enough that each of very many owners costs no look at all of them."""
        self._due_s = {name: due for name, due in self._due_s.items() if due > now_s}
        self._n_refused = Counter({name: self._n_refused[name] for name in self._due_s})
        self._pruned_at = max(PRUNED_AT, 2 * len(self._due_s))
