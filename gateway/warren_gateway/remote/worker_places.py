"""The places of remote env workers: a budget that each holds before its socket is accepted.

Invariants: no owner has more places than the budget allows; a worker that connects anew, while its old
socket is not yet known to be lost, inherits the place of that one, and needs no second one. There is one
heir at a time: whoever else comes under the same name asks for a place of its own.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from warren_gateway.budgets.budget import Budget


@dataclass(slots=True, eq=False)
class _Place:
    is_paid: bool
    is_held: bool = True
    heir: "_Place | None" = None


class WorkerPlaces:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._places: dict[tuple[str, str], _Place] = {}
        """The newest of each owner and worker."""

    @contextmanager
    def hold(self, owner: str, worker: str | None) -> Generator[None]:
        """A place until the context is left; `worker` is the name that it will say. Raises `OverBudget`."""
        if worker is None:
            with self._budget.hold(owner):
                yield
            return
        before = self._places.get((owner, worker))
        place = self._enter(owner, before)
        self._places[owner, worker] = place
        try:
            yield
        finally:
            self._leave(owner, place, before)
            if self._places.get((owner, worker)) is place:
                self._put_back((owner, worker), before)

    def _enter(self, owner: str, before: _Place | None) -> _Place:
        if before is None or not before.is_paid:
            self._budget.take(owner)
            return _Place(is_paid=True)
        before.heir = _Place(is_paid=False)
        return before.heir

    def _leave(self, owner: str, place: _Place, before: _Place | None) -> None:
        if before is not None and before.heir is place:
            before.heir = None
        place.is_held = False
        if not place.is_paid:
            return
        if place.heir is None:
            self._budget.give_back(owner)
        else:
            place.heir.is_paid = True

    def _put_back(self, name: tuple[str, str], before: _Place | None) -> None:
        if before is not None and before.is_held:
            self._places[name] = before
        else:
            del self._places[name]
