"""The sampler role: one desk for each base model of this worker, offered once it is loaded.

Invariants: when this ends, for whatever reason, what was held has gone back to its queue, the
children are gone, and the last heartbeat says that the worker leaves. What sends turns outlives
what ends them, so that a turn that ends while the sampler stops finds its sender there.
"""

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warren_broker.inbox import hear
from warren_broker.port import Broker
from warren_broker.topology import CANCELLATIONS, POLICIES, RUNS
from warren_broker.worker.heartbeat import INTERVAL_S, announce, beat
from warren_gpu_worker.room import Room
from warren_gpu_worker.sampler.frames import Published
from warren_gpu_worker.sampler.taking import take_turns
from warren_gpu_worker.sampler.turn_desk import TurnDesk
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.control import (
    EpisodeCancelled,
    Heartbeat,
    PolicyPublished,
    RunEnded,
    WorkerRole,
)
from warren_schemas.envelope import Envelope
from warren_schemas.ids import WorkerId, new_worker_id


async def serve_sampler(
    broker: Broker, settings: GpuWorkerSettings, *, room: Room | None = None
) -> None:
    """Take turns until cancelled; the children sleep while a trainer has the `room`.

    Raises `SamplerBroken` (in an exception group) when a base model can't be sampled from.
    """
    worker = new_worker_id("sampler")
    desks: dict[str, TurnDesk] = {}
    loaded = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as sending, asyncio.TaskGroup() as tasks:
            for base_model in settings.base_models:
                desk = TurnDesk(
                    base_model, broker, settings, worker=worker, sending=sending, room=room
                )
                desks[base_model] = desk
                tasks.create_task(desk.process.run(), name=f"child of {base_model}")
                taking = take_turns(broker, desk, sending, max_batch=settings.max_batch)
                tasks.create_task(taking, name=f"turns {base_model}")
                tasks.create_task(_tell_loaded(desk, loaded), name=f"loading of {base_model}")
            news = _News(desks)
            for hearing in (
                hear(broker, POLICIES, PolicyPublished, news.policies_published),
                hear(broker, RUNS, RunEnded, news.runs_ended),
                hear(broker, CANCELLATIONS, EpisodeCancelled, news.episodes_cancelled),
            ):
                tasks.create_task(hearing, name="news")
            tasks.create_task(
                beat(broker, lambda: _describe(worker, settings, desks), changed=loaded),
                name="heartbeat",
            )
    finally:
        for desk in desks.values():
            desk.close()
        last = _describe(worker, settings, desks)
        await announce(broker, last.model_copy(update={"is_leaving": True}))


async def _tell_loaded(desk: TurnDesk, loaded: asyncio.Event) -> None:
    await desk.process.ready()
    loaded.set()


@dataclass(frozen=True, slots=True)
class _News:
    """What all desks are told."""

    desks: Mapping[str, TurnDesk]

    def policies_published(self, items: Sequence[PolicyPublished]) -> None:
        for item in items:
            if desk := self.desks.get(item.base_model):
                desk.published(Published(item.model, item.policy.version, item.policy.url))

    def runs_ended(self, items: Sequence[RunEnded]) -> None:
        for desk in self.desks.values():
            for item in items:
                desk.run_ended(item.ended_run)

    def episodes_cancelled(self, items: Sequence[EpisodeCancelled]) -> None:
        for desk in self.desks.values():
            desk.episodes_cancelled([item.envelope for item in items])


def _describe(
    worker: WorkerId, settings: GpuWorkerSettings, desks: dict[str, TurnDesk]
) -> Heartbeat:
    return Heartbeat(
        envelope=Envelope(),
        worker=worker,
        role=WorkerRole.SAMPLER,
        offers=tuple(base for base, desk in desks.items() if desk.process.is_offered),
        interval_s=INTERVAL_S,
        capacity=settings.max_batch * len(settings.base_models),
        in_flight=sum(desk.n_open for desk in desks.values()),
        n_done=sum(desk.n_done for desk in desks.values()),
        host=socket.gethostname(),
        pid=os.getpid(),
    )
