"""The registry: which workers are alive, as their heartbeats tell.

It lives in memory and is rebuilt from the next heartbeats after a restart. It must never be asked
for the truth about a lease: a worker that is missing here may only have a slow network.

Invariants
- A worker is alive until it says that it leaves, or was silent for `MISSED_UNTIL_GONE` of its own
  intervals. A timer removes it then; nobody has to look.
- An owner's own env worker is known by its owner and its id: no id of a key holder's choosing can
  take the place of another worker.
- `changed` wakes on a change of who is alive, what they offer or which models they hold, never on a
  mere change of load.
"""

import asyncio
import time
from dataclasses import dataclass

from warren_broker.inbox import listen
from warren_broker.port import Broker
from warren_broker.topology import WORKERS
from warren_broker.worker.heartbeat import MISSED_UNTIL_GONE
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.ids import WorkerId

_Name = tuple[str, WorkerId]
"""Owner (empty for a worker of the deployment) and id."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest heartbeat of a worker, when it came (Unix time), and the timer of its end."""

    heartbeat: Heartbeat
    at_s: float
    expiry: asyncio.TimerHandle


def _standing(seen: Seen | None) -> object:
    """What others plan by: whether the worker is there, what it offers, which leases it holds."""
    return seen and (seen.heartbeat.role, seen.heartbeat.offers, seen.heartbeat.models)


class Registry:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seen: dict[_Name, Seen] = {}
        self._generation = 0
        self._change = asyncio.Event()

    @property
    def generation(self) -> int:
        """Rises with every change that `changed` tells of."""
        return self._generation

    def alive(self, role: WorkerRole | None = None) -> list[Heartbeat]:
        """The newest heartbeat of every live worker (of this role), in order of their ids."""
        return [seen.heartbeat for seen in self.seen() if role in (None, seen.heartbeat.role)]

    def seen(self) -> list[Seen]:
        """The same with the time of each heartbeat."""
        return [self._seen[name] for name in sorted(self._seen, key=lambda name: name[::-1])]

    async def changed(self, since: int | None = None) -> None:
        """Return at the next change, or at once when there was one after generation `since`.

        Read `generation` before `alive` and pass it here to miss nothing in between.
        """
        if since is None or since == self._generation:
            await self._change.wait()

    async def run(self) -> None:
        """Hear heartbeats until cancelled."""
        await self._broker.declare(WORKERS)
        try:
            async with listen(self._broker, WORKERS, Heartbeat) as inbox:
                async for claims in inbox:
                    for claim in claims:
                        self.hear(claim.item)
                        claim.done()
        finally:
            self._forget_all()

    def hear(self, heartbeat: Heartbeat) -> None:
        """Take in one heartbeat."""
        name = (heartbeat.owner or "", heartbeat.worker)
        before = self._seen.pop(name, None)
        after = None
        if before:
            before.expiry.cancel()
        if not heartbeat.is_leaving:
            after = Seen(heartbeat, time.time(), self._expiry(name, heartbeat))
            self._seen[name] = after
        if _standing(before) != _standing(after):
            self._announce_change()

    def _expiry(self, name: _Name, heartbeat: Heartbeat) -> asyncio.TimerHandle:
        silence_s = MISSED_UNTIL_GONE * heartbeat.interval_s
        loop = asyncio.get_running_loop()
        return loop.call_later(silence_s, self._expire, name)

    def _expire(self, name: _Name) -> None:
        del self._seen[name]
        self._announce_change()

    def _announce_change(self) -> None:
        self._generation += 1
        self._change.set()
        self._change = asyncio.Event()

    def _forget_all(self) -> None:
        for seen in self._seen.values():
            seen.expiry.cancel()
        self._seen.clear()
