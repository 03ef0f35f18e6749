"""What was taken from one queue and is not settled yet, counted.

Invariant: every claim that was counted in is counted out once, by whoever settles it.
"""

import asyncio
from collections.abc import Sequence

from warren_broker.inbox import Claim
from warren_schemas.episode import Generate


class OpenTurns:
    """At most about `max_open` turns from one queue; a message more may be in hand."""

    def __init__(self, max_open: int) -> None:
        self.n_open = 0
        self._max_open = max_open
        self._has_room = asyncio.Event()

    @property
    def is_full(self) -> bool:
        return self.n_open >= self._max_open

    def count(self, claims: Sequence[Claim[Generate]]) -> list[Claim[Generate]]:
        """The same claims; whoever settles one of these makes room for another."""
        self.n_open += len(claims)
        return [_Counted(claim, self) for claim in claims]

    async def until_room(self) -> None:
        while self.is_full:
            self._has_room.clear()
            await self._has_room.wait()

    def settled(self) -> None:
        self.n_open -= 1
        self._has_room.set()


class _Counted:
    """`Claim[Generate]`."""

    __slots__ = ("_claim", "_intake")

    def __init__(self, claim: Claim[Generate], intake: OpenTurns) -> None:
        self._claim = claim
        self._intake = intake

    @property
    def item(self) -> Generate:
        return self._claim.item

    @property
    def n_deliveries(self) -> int:
        return self._claim.n_deliveries

    @property
    def offset(self) -> int | None:
        return self._claim.offset

    def done(self) -> None:
        self._claim.done()
        self._intake.settled()

    def hand_back(self, *, delay_s: float = 0.0) -> None:
        self._claim.hand_back(delay_s=delay_s)
        self._intake.settled()

    def dead_letter(self, reason: str) -> None:
        self._claim.dead_letter(reason)
        self._intake.settled()
