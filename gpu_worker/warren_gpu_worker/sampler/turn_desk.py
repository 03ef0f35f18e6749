"""The desk: `Generate` items in hand, their turns at the engine, `Step` items out.

Invariants:
- A claim is settled only after its successor is confirmed: a `Step` at the episode's home (or at
  the shared queue, if the home is gone), or an `EpisodeEnded` in the run's stream (of a turn that
  belongs to no run: at its home).
- Every claim is settled, or handed back by the inbox when the desk stops.
- Items of an ended run or a cancelled episode are dropped; a failure of ours never becomes a turn.
Twins are generated twice, and whoever receives both tells them apart by turn number.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from warren_broker.courier import Courier
from warren_broker.errors import BrokerError, Unroutable
from warren_broker.inbox import Claim
from warren_broker.port import Broker
from warren_broker.topology import Home, Stream, trajectories
from warren_broker.worker.unwanted import Unwanted
from warren_gpu_worker.room import Room
from warren_gpu_worker.sampler.frames import FinishedTurn, Published, TurnRequest
from warren_gpu_worker.sampler.process import Answers, SamplerProcess
from warren_gpu_worker.sampler.turn_items import (
    PAST_DEADLINE,
    home_of,
    judged,
    objection,
    request_of,
    step_of,
    successor_envelope,
)
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import EpisodeEnded, Generate, Outcome
from warren_schemas.frame import WireError
from warren_schemas.ids import RunId, WorkerId

_RETRY_DELAY_S = 1.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    """An item whose turn is being taken."""

    claim: Claim[Generate]
    received_s: float
    expiry: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class _Parcel:
    """Successors for one destination, and the claims that they settle."""

    items: list[Item] = field(default_factory=list[Item])
    claims: list[Claim[Generate]] = field(default_factory=list[Claim[Generate]])


class TurnDesk:
    """The desk of one base model; `sending` outlives `process.run` and carries what it answers."""

    def __init__(
        self,
        base_model: str,
        broker: Broker,
        settings: GpuWorkerSettings,
        *,
        worker: WorkerId,
        sending: asyncio.TaskGroup,
        room: Room | None = None,
    ) -> None:
        self.process = SamplerProcess(base_model, settings, self._answered, room=room)
        self.n_done = 0
        self.n_open = 0
        self._broker = broker
        self._courier = Courier(broker)
        self._worker = worker
        self._sending = sending
        self._capacity = 2 * settings.max_batch
        self._ids = count(1)
        self._held: dict[int, _Held] = {}
        self._has_room = asyncio.Event()
        self._unwanted = Unwanted()

    async def take(self, claims: Sequence[Claim[Generate]]) -> None:
        """Begin these turns; returns when there is room for more."""
        self.n_open += len(claims)
        requests = [request for claim in claims if (request := self._begin(claim))]
        self.process.submit(requests)
        while self.n_open >= self._capacity:
            self._has_room.clear()
            await self._has_room.wait()

    def run_ended(self, run: RunId) -> None:
        """Drop what is held of the run, and what still comes."""
        self._unwanted.end_run(run)
        self._drop_unwanted()

    def episodes_cancelled(self, envelopes: Iterable[Envelope]) -> None:
        """Drop what is held of these attempts at episodes, and what still comes."""
        for envelope in envelopes:
            self._unwanted.cancel(envelope)
        self._drop_unwanted()

    def _drop_unwanted(self) -> None:
        ids = [i for i, held in self._held.items() if held.claim.item.envelope in self._unwanted]
        self.process.cancel(ids)
        for request_id in ids:
            self._release(request_id).claim.done()
        self._closed(len(ids))

    def published(self, news: Published) -> None:
        self.process.published(news)

    def close(self) -> None:
        """No deadline rings any more: what is held goes back with its claims."""
        for request_id in list(self._held):
            self._release(request_id)

    def _begin(self, claim: Claim[Generate]) -> TurnRequest | None:
        """The request for the engine, or None where the claim found another end."""
        item, now_s = claim.item, time.time()
        if item.envelope in self._unwanted:
            claim.done()
            self._closed(1)
            return None
        held = _Held(claim, now_s)
        if failure := objection(item, self.process.base_model, now_s):
            self._deliver_all([(held, failure)])
            return None
        request_id = next(self._ids)
        self._held[request_id] = held
        if (deadline_s := item.envelope.deadline_s) is not None:
            loop = asyncio.get_running_loop()
            held.expiry = loop.call_later(deadline_s - now_s, self._expire, request_id)
        return request_of(request_id, item)

    def _release(self, request_id: int) -> _Held:
        held = self._held.pop(request_id)
        if held.expiry:
            held.expiry.cancel()
        return held

    def _expire(self, request_id: int) -> None:
        self.process.cancel([request_id])
        self._deliver_all([(self._release(request_id), PAST_DEADLINE)])

    def _answered(self, answers: Answers) -> None:
        known = [(self._release(a.id), a) for a in answers if a.id in self._held]
        self._deliver_all([(held, judged(held.claim.item, answer)) for held, answer in known])

    def _deliver_all(self, outcomes: Iterable[tuple[_Held, FinishedTurn | Outcome]]) -> None:
        """Pack the successors by destination and send each parcel in a task of its own."""
        parcels: dict[Home | Stream, _Parcel] = {}
        for held, outcome in outcomes:
            successor = self._successor(held, outcome)
            parcel = parcels.setdefault(successor[0], _Parcel())
            parcel.items.append(successor[1])
            parcel.claims.append(held.claim)
        for address, parcel in parcels.items():
            name = f"{len(parcel.items)} successors to {address.name}"
            self._sending.create_task(self._deliver(address, parcel), name=name)

    def _successor(
        self, held: _Held, outcome: FinishedTurn | Outcome
    ) -> tuple[Home | Stream, Item]:
        """What the turn's outcome is to its run's stream, or to its home if it belongs to no run."""
        item = held.claim.item
        its_home = home_of(item)
        if isinstance(outcome, FinishedTurn):
            return its_home, step_of(item, outcome)
        ended = EpisodeEnded(
            envelope=successor_envelope(item),
            spec=item.spec,
            transcript=item.transcript,
            outcome=outcome,
            worker=self._worker,
            started_s=held.received_s,
            ended_s=time.time(),
        )
        run = item.envelope.run
        return (trajectories(run) if run else its_home), ended

    async def _deliver(self, address: Home | Stream, parcel: _Parcel) -> None:
        """Send a parcel and settle its claims."""
        try:
            await self._send(address, parcel.items)
        except WireError as error:
            await self._deliver_singly(address, parcel, error)
            return
        except BrokerError as error:
            log.warning("%d turns go back to their queue: %s", len(parcel.claims), error)
            for claim in parcel.claims:
                claim.hand_back(delay_s=_RETRY_DELAY_S)
        else:
            for claim in parcel.claims:
                claim.done()
            self.n_done += len(parcel.claims)
        self._closed(len(parcel.claims))

    async def _deliver_singly(
        self, address: Home | Stream, parcel: _Parcel, error: WireError
    ) -> None:
        """One item is unfit to travel: find it, and give it up alone."""
        if len(parcel.items) == 1:
            parcel.claims[0].dead_letter(f"its successor can't be sent: {error}")
            self._closed(1)
            return
        for item, claim in zip(parcel.items, parcel.claims, strict=True):
            await self._deliver(address, _Parcel([item], [claim]))

    async def _send(self, address: Home | Stream, items: list[Item]) -> None:
        try:
            await self._courier.send_all(address, items)
        except Unroutable:
            if isinstance(address, Stream):
                log.info("nobody keeps %s any more: %d failures dropped", address.name, len(items))
                return
            await self._broker.declare(address.fallback)
            await self._courier.send_all(address.fallback, items)

    def _closed(self, n_claims: int) -> None:
        self.n_open -= n_claims
        self._has_room.set()
