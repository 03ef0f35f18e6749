"""The slots of remote env workers: a budget that each holds before its socket is accepted.

Invariants: no owner has more slots than the budget allows; a worker that connects anew, while its old
socket is not yet known to be lost, inherits the slot of that one, and needs no second one. There is one
heir at a time: whoever else comes under the same name asks for a slot of its own.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from warren_gateway.budgets.budget import Budget


@dataclass(slots=True, eq=False)
class _Slot:
    is_paid: bool
    is_held: bool = True
    heir: "_Slot | None" = None


class WorkerSlots:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._slots: dict[tuple[str, str], _Slot] = {}
        """The newest of each owner and worker."""

    @contextmanager
    def hold(self, owner: str, worker: str | None) -> Generator[None]:
        """A slot until the context is left; `worker` is the name that it will say. Raises `OverBudget`."""
        if worker is None:
            with self._budget.hold(owner):
                yield
            return
        before = self._slots.get((owner, worker))
        slot = self._enter(owner, before)
        self._slots[owner, worker] = slot
        try:
            yield
        finally:
            self._leave(owner, slot, before)
            if self._slots.get((owner, worker)) is slot:
                self._put_back((owner, worker), before)

    def _enter(self, owner: str, before: _Slot | None) -> _Slot:
        if before is None or not before.is_paid:
            self._budget.take(owner)
            return _Slot(is_paid=True)
        before.heir = _Slot(is_paid=False)
        return before.heir

    def _leave(self, owner: str, slot: _Slot, before: _Slot | None) -> None:
        if before is not None and before.heir is slot:
            before.heir = None
        slot.is_held = False
        if not slot.is_paid:
            return
        if slot.heir is None:
            self._budget.give_back(owner)
        else:
            slot.heir.is_paid = True

    def _put_back(self, name: tuple[str, str], before: _Slot | None) -> None:
        if before is not None and before.is_held:
            self._slots[name] = before
        else:
            del self._slots[name]
