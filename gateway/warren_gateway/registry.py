"""The registry: which workers are alive, as their heartbeats tell.

It lives in memory; once it listens it asks all workers for their heartbeats. It must never be asked
for the truth about a lease: a worker that is missing here may only have a slow network.

Invariants
- A worker is alive until it says that it leaves, or was silent for `MISSED_UNTIL_GONE` of its own
  intervals. A timer removes it then; nobody has to look. A gateway that was itself frozen has heard
  nobody, and gives them that time once more.
- An owner's own env worker is known by its owner and its id: no id of a key holder's choosing can
  take the place of another worker.
- A heartbeat that comes late, or once more, takes back nothing that a newer one of its process said: a lease
  that it doesn't list yet would be lost. Clocks of two processes are not compared; one whose clock went back
  all the same is heard again once it would have been gone.
- `changed` wakes on a change of who is alive, what they offer or which models they hold, never on a
  mere change of load; `offered` wakes only when a worker offers that base model, for thousands may wait for one.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from warren_broker.errors import BrokerUnavailable
from warren_broker.inbox import listen
from warren_broker.port import Broker
from warren_broker.topology import HEARTBEAT_REQUESTS, WORKERS
from warren_broker.worker.heartbeat import MISSED_UNTIL_GONE
from warren_schemas.codec.wire import encode
from warren_schemas.control import Heartbeat, HeartbeatsRequested, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.ids import WorkerId

LATE_S = 0.5
"""A timer that goes off so long after its time says that this process stood still: heartbeats that
came meanwhile are still to be read."""

log = logging.getLogger(__name__)

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
    return seen and (
        seen.heartbeat.role,
        seen.heartbeat.offers,
        seen.heartbeat.models,
        seen.heartbeat.without_disk_space,
        seen.heartbeat.is_draining,
        seen.heartbeat.drained_offers,
        seen.heartbeat.loading,
        seen.heartbeat.may_load,
        seen.heartbeat.cannot_load,
    )


def _is_older(one: Heartbeat, other: Heartbeat) -> bool:
    """Whether the process that sent both sent this one first."""
    is_same_process = (one.host, one.pid) == (other.host, other.pid)
    return is_same_process and one.clock_ns < other.clock_ns


class Registry:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seen: dict[_Name, Seen] = {}
        self._left: dict[_Name, Heartbeat] = {}
        self._generation = 0
        self._change = asyncio.Event()
        self._offered = WeakValueDictionary[tuple[WorkerRole, str], asyncio.Event]()
        """Of the base models that are waited for."""

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

    def offers(self, role: WorkerRole, base_model: str) -> bool:
        """Whether a live worker of this role offers it."""
        beats = (seen.heartbeat for seen in self._seen.values())
        return any(beat.role is role and base_model in beat.offers for beat in beats)

    async def offered(self, role: WorkerRole, base_model: str) -> None:
        """Return once a live worker of this role offers it."""
        while not self.offers(role, base_model):
            event = self._offered.setdefault((role, base_model), asyncio.Event())
            await event.wait()

    async def run(self) -> None:
        """Ask for heartbeats, and hear them until cancelled."""
        await self._broker.declare(WORKERS, HEARTBEAT_REQUESTS)
        try:
            async with listen(self._broker, WORKERS, Heartbeat) as inbox:
                await self._request_heartbeats()
                async for claims in inbox:
                    for claim in claims:
                        self.hear(claim.item)
                        claim.done()
        finally:
            self._forget_all()

    async def _request_heartbeats(self) -> None:
        """Whom it doesn't reach is heard at the next interval."""
        request = HeartbeatsRequested(envelope=Envelope())
        try:
            await self._broker.publish(
                HEARTBEAT_REQUESTS, encode([request]), message_id=request.envelope.id
            )
        except BrokerUnavailable as error:
            log.warning("heartbeats were not asked for: %s", error)

    def hear(self, heartbeat: Heartbeat) -> None:
        """Take in one heartbeat, unless a newer one of the same worker was here."""
        name = (heartbeat.owner or "", heartbeat.worker)
        if (newest := self._newest(name)) is not None and _is_older(heartbeat, newest):
            return log.info("a heartbeat of %s has come late", heartbeat.worker)
        before = self._seen.pop(name, None)
        after = None
        if before:
            before.expiry.cancel()
        if heartbeat.is_leaving:
            self._left[name] = heartbeat
            self._timer(name, heartbeat, self._forget)
        else:
            expiry = self._timer(name, heartbeat, self._expire)
            after = Seen(heartbeat, time.time(), expiry)
            self._seen[name] = after
        if _standing(before) != _standing(after):
            self._announce_change()

    def _newest(self, name: _Name) -> Heartbeat | None:
        """Of a worker that left a short while ago, its last."""
        seen = self._seen.get(name)
        return seen.heartbeat if seen else self._left.get(name)

    def _timer(
        self, name: _Name, heartbeat: Heartbeat, then: Callable[[_Name], None]
    ) -> asyncio.TimerHandle:
        silence_s = MISSED_UNTIL_GONE * heartbeat.interval_s
        return asyncio.get_running_loop().call_later(silence_s, then, name)

    def _expire(self, name: _Name) -> None:
        seen = self._seen[name]
        if asyncio.get_running_loop().time() - seen.expiry.when() <= LATE_S:
            return self._remove(name)
        again = self._timer(name, seen.heartbeat, self._remove)
        self._seen[name] = replace(seen, expiry=again)

    def _remove(self, name: _Name) -> None:
        del self._seen[name]
        self._announce_change()

    def _forget(self, name: _Name) -> None:
        self._left.pop(name, None)

    def _announce_change(self) -> None:
        self._generation += 1
        self._change.set()
        self._change = asyncio.Event()
        for (role, base_model), event in list(self._offered.items()):
            if self.offers(role, base_model):
                event.set()
                del self._offered[role, base_model]

    def _forget_all(self) -> None:
        for seen in self._seen.values():
            seen.expiry.cancel()
        self._seen.clear()
        self._left.clear()
