"""The queues that owners' remote env workers have at the broker, as part of a budget.

Invariants: a queue is counted once, before it is declared, and for as long as the broker may have it: while a
session uses it, and then until the broker has forgotten it. So neither many names at once nor
one after the other, each in a session of its own, make more queues than the budget allows.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from warren_broker.errors import NotAllowed
from warren_broker.topology import Home, WorkQueue
from warren_gateway.budgets.budget import Budget, OverBudget

SLACK_S = 30.0
"""A broker may forget a queue so much later than it could."""

Place = WorkQueue | Home


@dataclass(slots=True, eq=False)
class _Queue:
    users: "set[SessionQueues]" = field(default_factory=lambda: set[SessionQueues]())
    forgotten: asyncio.TimerHandle | None = None


class DeclaredQueues:
    """Of all remote env workers of a gateway."""

    def __init__(self, budget: Budget, *, slack_s: float = SLACK_S) -> None:
        self._budget = budget
        self._slack_s = slack_s
        self._queues: dict[tuple[str, str], _Queue] = {}

    def of_session(self, owner: str) -> "SessionQueues":
        return SessionQueues(self, owner)

    def use(self, session: "SessionQueues", place: Place) -> None:
        """Raises `OverBudget`."""
        key = session.owner, place.name
        if (queue := self._queues.get(key)) is None:
            self._budget.take(session.owner)
            queue = self._queues[key] = _Queue()
        if queue.forgotten is not None:
            queue.forgotten.cancel()
            queue.forgotten = None
        queue.users.add(session)

    def leave(self, session: "SessionQueues", place: Place) -> None:
        key = session.owner, place.name
        queue = self._queues[key]
        queue.users.discard(session)
        if not queue.users:
            kept_s = (place.expires_s or 0.0) + self._slack_s
            loop = asyncio.get_running_loop()
            queue.forgotten = loop.call_later(kept_s, self._forget, key)

    def _forget(self, key: tuple[str, str]) -> None:
        del self._queues[key]
        self._budget.give_back(key[0])


class SessionQueues:
    """Those of one session."""

    def __init__(self, all_queues: DeclaredQueues, owner: str) -> None:
        self.owner = owner
        self._all = all_queues
        self._places: dict[str, Place] = {}

    def use(self, place: Place) -> None:
        """This queue is about to be declared. Raises `NotAllowed` where there are too many."""
        try:
            for each in _with_fallback(place):
                if each.name not in self._places:
                    self._all.use(self, each)
                    self._places[each.name] = each
        except OverBudget as error:
            raise NotAllowed(
                f"{place.name} would be one queue too many: {error}. One that no worker consumes from is"
                " forgotten after a while; GET /v1/budgets shows what is in use"
            ) from error

    def has(self, place: Place) -> bool:
        return place.name in self._places

    def close(self) -> None:
        """The session is over."""
        places, self._places = self._places, {}
        for place in places.values():
            self._all.leave(self, place)


def _with_fallback(place: Place) -> Iterator[Place]:
    """A home brings its fallback along."""
    if isinstance(place, Home):
        yield place.fallback
    yield place
