"""Dead letters by owner: whose they are, and that nobody has more of them than their limit.

Invariants: a letter is its owner's who has every run that it names. What is dropped for want of place is logged.
A look holds one body at a time. Several gateways may look after the same letters: they drop the same ones.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial

from warren_broker.errors import BrokerUnavailable
from warren_broker.port import Broker, DeadLetter
from warren_broker.topology import DEAD
from warren_gateway.budgets.dead_letters import NOBODY, DeadLetterQuota, Letter
from warren_gateway.runs.owned import owners_of
from warren_gateway.store.store import Store, StoreUnavailable
from warren_schemas.codec.wire import Glimpse, glimpse

MOST_LOOKED_AT = 10_000
MOST_BYTES = 1_000_000_000
"""What one look goes through, oldest first; letters behind that are seen once some of these are gone."""
LOOK_S = 15.0
"""How often it is asked whether there are others than before; a queue's depth has no event to wait for."""

log = logging.getLogger(__name__)

_Outline = tuple[str, frozenset[str] | None, int]
"""Id, runs and size."""


class DeadLetters:
    """Keeps them within the quota, while `run` runs."""

    def __init__(
        self, broker: Broker, store: Store, quota: DeadLetterQuota, *, look_s: float = LOOK_S
    ) -> None:
        self._broker = broker
        self._store = store
        self._quota = quota
        self._look_s = look_s

    async def run(self) -> None:
        """Until cancelled."""
        n_before = 0
        while True:
            try:
                n_letters = await self._broker.depth(DEAD) or 0
                if n_letters != n_before:
                    n_before = n_letters - await self.enforce()
            except (BrokerUnavailable, StoreUnavailable) as error:
                log.info("dead letters are not counted: %s", error)
            await asyncio.sleep(self._look_s)

    async def enforce(self) -> int:
        """Drop those that are too many; how many it were."""
        outlines = await self._broker.look_at_dead_letters(
            _outline, limit=MOST_LOOKED_AT, max_bytes=MOST_BYTES
        )
        runs = {run for _, named, _ in outlines for run in named or ()}
        owners = await self._store.read(partial(owners_of, runs=runs))
        letters = [Letter(id_, _owner(named, owners), size) for id_, named, size in outlines]
        excess = self._quota.take_stock(letters)
        if not excess:
            return 0
        for owner, n in Counter(letter.owner for letter in excess).items():
            log.warning("%d dead letters of %s are dropped: too many", n, owner or "nobody")
        return await self._broker.drop_dead_letters({letter.id for letter in excess})


def runs_named(seen: Glimpse | None) -> frozenset[str] | None:
    """The runs of a message; None unless each of its items names one."""
    if seen is None:
        return None
    runs = frozenset(run for run in seen.runs if isinstance(run, str))
    return runs if len(runs) == len(seen.runs) else None


def _outline(letter: DeadLetter) -> _Outline:
    return letter.id, runs_named(glimpse(letter.body)), len(letter.body)


def _owner(runs: Collection[str] | None, owners: Mapping[str, str]) -> str:
    named = {owners.get(run, NOBODY) for run in runs or ()}
    return named.pop() if len(named) == 1 else NOBODY
