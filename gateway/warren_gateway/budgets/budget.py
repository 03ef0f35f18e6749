"""A budget: how much of one shared thing is in use, by owner and in total.

Invariants
- What is taken is counted before anything is done with it, in one turn of the event loop, and given
  back when its holder is done, however that ends.
- No owner holds more than its own limit, and all together no more than the total: whoever wants more is
  refused at once and told which limit it was, and what the others hold is not touched.
"""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from warren_schemas.users.budgets import BudgetView


class OverBudget(Exception):
    """Refused; says what there is too much of, and whose limit it was."""


class Budget:
    def __init__(self, what: str, *, per_owner: int, total: int) -> None:
        """`what` is counted, for people: `open event streams`."""
        self._what = what
        self._per_owner = per_owner
        self._total = total
        self._held = Counter[str]()
        self._n_held = 0
        self._refused = Counter[str]()

    @property
    def n_held(self) -> int:
        """By all owners."""
        return self._n_held

    @property
    def most(self) -> int:
        """What an owner who holds nothing may have while nobody else does."""
        return min(self._per_owner, self._total)

    @contextmanager
    def hold(self, owner: str, n: int = 1) -> Generator[None]:
        """Take `n` for this owner until the context is left. Raises `OverBudget`."""
        self.take(owner, n)
        try:
            yield
        finally:
            self.give_back(owner, n)

    def take(self, owner: str, n: int = 1) -> None:
        """To be given back by `give_back`. Raises `OverBudget`."""
        self._require(owner, n)
        self._held[owner] += n
        self._n_held += n

    def give_back(self, owner: str, n: int = 1) -> None:
        self._n_held -= n
        self._held[owner] -= n
        if not self._held[owner]:
            del self._held[owner]

    def view(self, owner: str) -> BudgetView:
        """As this owner may see it."""
        return BudgetView(
            name=self._what,
            used=self._held[owner],
            limit=self._per_owner,
            total_used=self._n_held,
            total_limit=self._total,
            n_refused=self._refused[owner],
        )

    def _require(self, owner: str, n: int) -> None:
        has, asks = self._held[owner], "1 more" if n == 1 else f"{n} more"
        if has + n > self._per_owner:
            self._refused[owner] += 1
            raise OverBudget(
                f"You have {has} {self._what} and request {asks}; the limit is {self._per_owner}"
            )
        if self._n_held + n > self._total:
            self._refused[owner] += 1
            raise OverBudget(
                f"This gateway has {self._n_held} {self._what} of all users, is asked for {asks}, and"
                f" takes {self._total}"
            )
