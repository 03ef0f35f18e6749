"""The open turns of one base model's sampler: the supervisor's one ledger of them.

A turn is open from when its item is claimed until its claim is settled. In between the child owes an
answer to it, or what follows from it is on its way to be confirmed.

Invariants:
- Every turn that was opened is counted until its claim is settled, and no longer: whoever settles the
  claim does so through the turn.
- A turn is owed from `owe` until `release`, which hands it out once. So one thing comes of it, whatever
  comes first: an answer, its deadline, an end of its run, a sampler that has no child any more.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

from warren_broker.inbox import Claim
from warren_gpu_worker.sampler.messages import TurnRequest
from warren_schemas.episode import Generate


class TurnSource(Enum):
    """The queue that a turn was taken from."""

    SHARED = "shared"
    """By all samplers of the base model."""
    OWN = "own"
    """This sampler's."""


@dataclass(slots=True, eq=False)
class OpenTurn:
    """`Claim[Generate]`, with all that is known of its turn."""

    id: int
    claim: Claim[Generate]
    source: TurnSource
    taken_s: float
    """Unix time."""
    settled: "Callable[[OpenTurn, bool], None]" = field(repr=False)
    request: TurnRequest | None = None
    """What the child is to answer, once it was asked."""
    n_attempts: int = 0
    """How many children got the request."""
    deadline: asyncio.TimerHandle | None = None

    @property
    def item(self) -> Generate:
        return self.claim.item

    @property
    def n_deliveries(self) -> int:
        return self.claim.n_deliveries

    @property
    def offset(self) -> int | None:
        return self.claim.offset

    def done(self) -> None:
        self.claim.done()
        self.settled(self, True)

    def drop(self) -> None:
        """Nobody wants it any more: it is done, and nothing follows."""
        self.claim.done()
        self.settled(self, False)

    def hand_back(self, *, delay_s: float = 0.0) -> None:
        self.claim.hand_back(delay_s=delay_s)
        self.settled(self, False)

    def dead_letter(self, reason: str) -> None:
        self.claim.dead_letter(reason)
        self.settled(self, False)


class OpenTurns:
    """At most about `max_per_source` from each queue; a message more may be in hand."""

    def __init__(self, max_per_source: int) -> None:
        self.n_done = 0
        """Turns that ended with a confirmed successor."""
        self.owed_since_s = 0.0
        """Since when the child has owed something without a pause; monotonic."""
        self._max_per_source = max_per_source
        self._n_open = Counter[TurnSource]()
        self._owed: dict[int, OpenTurn] = {}
        self._not_full = asyncio.Event()
        self._ids = count(1)

    @property
    def n_open(self) -> int:
        return self._n_open.total()

    @property
    def n_owed(self) -> int:
        return len(self._owed)

    def is_full(self, source: TurnSource) -> bool:
        return self._n_open[source] >= self._max_per_source

    async def until_not_full(self, source: TurnSource) -> None:
        while self.is_full(source):
            self._not_full.clear()
            await self._not_full.wait()

    async def until_empty(self, source: TurnSource) -> None:
        """Every turn of this queue is settled."""
        while self._n_open[source]:
            self._not_full.clear()
            await self._not_full.wait()

    def open(self, claims: Iterable[Claim[Generate]], source: TurnSource) -> list[OpenTurn]:
        now_s = time.time()
        turns = [OpenTurn(next(self._ids), claim, source, now_s, self._settled) for claim in claims]
        self._n_open[source] += len(turns)
        return turns

    def owed(self) -> Sequence[OpenTurn]:
        return list(self._owed.values())

    def owe(self, turn: OpenTurn, request: TurnRequest) -> None:
        """From now on the child owes this request's answer."""
        if not self._owed:
            self.owed_since_s = time.monotonic()
        turn.request = request
        self._owed[turn.id] = turn

    def attempted(self, ids: Iterable[int]) -> None:
        """A child is about to get these requests."""
        for turn_id in ids:
            if turn := self._owed.get(turn_id):
                turn.n_attempts += 1

    def not_attempted(self) -> None:
        """What the child was given is not to blame for its end."""
        for turn in self._owed.values():
            turn.n_attempts = max(0, turn.n_attempts - 1)

    def release(self, ids: Iterable[int]) -> list[OpenTurn]:
        """Those of them that are owed, and from now on are not: nobody else gets them."""
        turns = [turn for turn_id in ids if (turn := self._owed.pop(turn_id, None))]
        for turn in turns:
            if turn.deadline:
                turn.deadline.cancel()
        return turns

    def _settled(self, turn: OpenTurn, is_done: bool) -> None:
        self._n_open[turn.source] -= 1
        self.n_done += is_done
        self._not_full.set()
