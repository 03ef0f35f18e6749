"""Jobs taken from the queues of this worker's base models, while there is room for them.

Invariants:
- Nothing is taken without room: the consumer of a queue is stopped before the job that fills the worker is
  acknowledged, and begins again once there is room.
- A job that was taken keeps its room until its lease is granted, it is taken back, or nobody has answered
  for `KEEP_S`; what comes later is judged by the room there is then.
- A job is acknowledged only after its coordinator was told, so one that a dying worker had in hand goes to
  another. The coordinator grants the lease to the first that tells, so twins of a message do no harm.
- A job whose coordinator no longer listens is dropped, and keeps no room.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import BrokerUnavailable, Unroutable
from warren_broker.inbox import Claim, Inbox, receive
from warren_broker.port import Broker
from warren_broker.topology import WorkQueue, jobs, results
from warren_gpu_worker.trainer.supervisor.model_lease import is_awaited
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId, WorkerId
from warren_schemas.training import Job, JobTaken

KEEP_S = 60.0
_AGAIN_S = 1.0

log = logging.getLogger(__name__)


class Room(Protocol):
    """What the worker knows of the models that it holds."""

    def has_room(self, model: ModelId | None, *, is_whole: bool) -> bool:
        """Whether a model would fit beside those that are held and kept room for, if it needs the worker to itself
        (`is_whole`) or not; `model` itself is not counted."""
        ...

    def held_epoch(self, model: ModelId) -> int | None:
        """Of the lease in force."""
        ...

    def newest_epoch(self, model: ModelId) -> int:
        """The highest that was held here or closed; 0 if there was none."""
        ...

    def on_reserved(self) -> None:
        """What is kept has changed."""
        ...


@dataclass(frozen=True, slots=True)
class _Reservation:
    epoch: int
    is_whole: bool
    lapse: asyncio.TimerHandle


class JobQueues:
    def __init__(
        self, broker: Broker, batch_publisher: BatchPublisher, worker: WorkerId, room: Room
    ) -> None:
        self._broker = broker
        self._batch_publisher = batch_publisher
        self._worker = worker
        self._room = room
        self._reserved: dict[ModelId, _Reservation] = {}
        self._changed = asyncio.Event()

    def reserved(self, *, but: ModelId | None = None) -> list[bool]:
        """Of each job that room is kept for, whether it takes the whole worker."""
        return [kept.is_whole for model, kept in self._reserved.items() if model != but]

    def room_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def release(self, model: ModelId, epoch: int) -> None:
        """The lease of this epoch was granted, or taken back: no room is kept for it any more."""
        kept = self._reserved.get(model)
        if kept is not None and kept.epoch <= epoch:
            kept.lapse.cancel()
            del self._reserved[model]
            self._room.on_reserved()

    async def take(self, base_models: Iterable[str], n_gpus: int) -> None:
        """Take jobs of these base models that need no more GPUs; never returns.

        Those that need several have the worker to themselves, as full-parameter ones do: it is kept for them.
        """
        async with asyncio.TaskGroup() as tasks:
            for base, full, n in product(base_models, (False, True), range(1, n_gpus + 1)):
                queue = jobs(base, is_full=full, n_gpus=n)
                tasks.create_task(
                    self._take(queue, is_whole=full or n > 1), name=f"take {queue.name}"
                )

    async def _take(self, queue: WorkQueue, *, is_whole: bool) -> None:
        while True:
            await self._until(lambda: self._has_room(is_whole=is_whole))
            async with receive(self._broker, queue, Job, prefetch=1) as inbox:
                stopping = asyncio.create_task(
                    self._stop_when_full(inbox, is_whole=is_whole), name=f"{queue.name} when full"
                )
                try:
                    async for claims in inbox:
                        for claim in claims:
                            await self._consider(claim, inbox, is_whole=is_whole)
                finally:
                    stopping.cancel()
                    await asyncio.wait([stopping])

    async def _stop_when_full(self, inbox: Inbox[Job], *, is_whole: bool) -> None:
        await self._until(lambda: not self._has_room(is_whole=is_whole))
        await inbox.stop()

    def _has_room(self, *, is_whole: bool) -> bool:
        return self._room.has_room(None, is_whole=is_whole)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()

    async def _consider(self, claim: Claim[Job], inbox: Inbox[Job], *, is_whole: bool) -> None:
        job = claim.item
        kept = self._reserved.get(job.model)
        newest = self._room.newest_epoch(job.model)
        if self._room.held_epoch(job.model) == job.epoch:
            return claim.done()  # it was granted to us already
        if job.epoch <= newest:
            log.info("late job of %s, epoch %d: %d was here", job.model, job.epoch, newest)
            return await self._answer(claim, late_after=newest)
        if kept is None or kept.epoch < job.epoch:
            if not self._room.has_room(job.model, is_whole=is_whole):
                return claim.hand_back(delay_s=_AGAIN_S)
            if not await is_awaited(self._broker, job.model):
                log.info("nobody wants the job of %s any more", job.model)
                return claim.done()
            self._reserve(job, is_whole=is_whole)
        if not self._has_room(is_whole=is_whole):
            await inbox.stop()
        await self._answer(claim)

    def _reserve(self, job: Job, *, is_whole: bool) -> None:
        if (older := self._reserved.get(job.model)) is not None:
            older.lapse.cancel()
        lapse = asyncio.get_running_loop().call_later(KEEP_S, self.release, job.model, job.epoch)
        self._reserved[job.model] = _Reservation(job.epoch, is_whole, lapse)
        log.info("taking %s, epoch %d", job.model, job.epoch)
        self._room.on_reserved()

    async def _answer(self, claim: Claim[Job], *, late_after: int | None = None) -> None:
        """Tell the coordinator, and only then let go of the message."""
        job = claim.item
        taken = JobTaken(
            envelope=Envelope(run=job.envelope.run),
            model=job.model,
            epoch=job.epoch,
            worker=self._worker,
            late_after=late_after,
        )
        try:
            await self._batch_publisher.send(results(job.model), taken)
        except BrokerUnavailable:
            self.release(job.model, job.epoch)
            return claim.hand_back(delay_s=_AGAIN_S)
        except Unroutable:
            log.info("nobody wants the job of %s any more", job.model)
            self.release(job.model, job.epoch)
        claim.done()
