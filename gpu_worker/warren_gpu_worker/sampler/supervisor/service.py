"""The sampler role: one dispatcher for each base model of this worker, offered once it is loaded.

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
from warren_broker.run_logs.sending import sending_run_logs
from warren_broker.successors import open_successor_publisher
from warren_broker.topology import CANCELLATIONS, POLICIES, RUNS
from warren_broker.worker.draining import Draining
from warren_broker.worker.heartbeat import INTERVAL_S, announce, beat
from warren_gpu_worker.reloading import Reloading
from warren_gpu_worker.sampler.messages import Published
from warren_gpu_worker.sampler.supervisor.child_process import SamplerProcess
from warren_gpu_worker.sampler.supervisor.process_factory import MakeSamplerProcess
from warren_gpu_worker.sampler.supervisor.turn_dispatcher import TurnDispatcher
from warren_gpu_worker.sampler.supervisor.turn_queues import take_turns
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.time_share import TimeShare
from warren_schemas.control import (
    EpisodeCancelled,
    Heartbeat,
    PolicyPublished,
    RunEnded,
    WorkerRole,
)
from warren_schemas.envelope import Envelope
from warren_schemas.events import LogComponent
from warren_schemas.ids import WorkerId, new_worker_id


async def serve_sampler(
    broker: Broker,
    settings: GpuWorkerSettings,
    *,
    time_share: TimeShare | None = None,
    make_process: MakeSamplerProcess = SamplerProcess,
    reloading: Reloading | None = None,
) -> None:
    """Take turns until cancelled; the children sleep while a trainer has the GPU (`time_share`).

    Raises `SamplerBroken` (in an exception group) when a base model can't be sampled from.
    """
    worker = new_worker_id("sampler")
    dispatchers: dict[str, TurnDispatcher] = {}
    loaded = asyncio.Event()
    draining = Draining(worker)
    reloading = reloading or Reloading(settings)
    reloading.n_turns = lambda: sum(one.turns.n_open for one in dispatchers.values())

    def describe() -> Heartbeat:
        return _describe(worker, reloading, dispatchers, draining)

    try:
        async with (
            sending_run_logs(broker, LogComponent.SAMPLER, worker),
            open_successor_publisher(broker) as publisher,
            asyncio.TaskGroup() as tasks,
        ):
            for base_model in settings.base_models:
                dispatcher = TurnDispatcher(
                    base_model,
                    publisher,
                    settings,
                    worker=worker,
                    time_share=time_share,
                    make_process=make_process,
                )
                dispatchers[base_model] = dispatcher
                tasks.create_task(dispatcher.process.run(), name=f"child of {base_model}")
                taking = take_turns(
                    broker, dispatcher, max_batch=settings.max_batch, draining=draining
                )
                tasks.create_task(taking, name=f"turns {base_model}")
                tasks.create_task(_tell_loaded(dispatcher, loaded), name=f"loading of {base_model}")
            news = _News(dispatchers)
            for hearing in (
                hear(broker, POLICIES, PolicyPublished, news.policies_published),
                hear(broker, RUNS, RunEnded, news.runs_ended),
                hear(broker, CANCELLATIONS, EpisodeCancelled, news.episodes_cancelled),
            ):
                tasks.create_task(hearing, name="news")
            beating = beat(broker, describe, draining=draining, changed=loaded)
            tasks.create_task(beating, name="heartbeat")
    finally:
        for dispatcher in dispatchers.values():
            dispatcher.close()
        await announce(broker, describe().model_copy(update={"is_leaving": True}))


async def _tell_loaded(dispatcher: TurnDispatcher, loaded: asyncio.Event) -> None:
    await dispatcher.process.ready()
    loaded.set()


@dataclass(frozen=True, slots=True)
class _News:
    """What all dispatchers are told."""

    dispatchers: Mapping[str, TurnDispatcher]

    def policies_published(self, items: Sequence[PolicyPublished]) -> None:
        for item in items:
            if dispatcher := self.dispatchers.get(item.base_model):
                dispatcher.policy_published(
                    Published(item.model, item.policy.version, item.policy.url)
                )

    def runs_ended(self, items: Sequence[RunEnded]) -> None:
        for dispatcher in self.dispatchers.values():
            for item in items:
                dispatcher.run_ended(item.ended_run)

    def episodes_cancelled(self, items: Sequence[EpisodeCancelled]) -> None:
        for dispatcher in self.dispatchers.values():
            dispatcher.episodes_cancelled([item.envelope for item in items])


def _describe(
    worker: WorkerId,
    reloading: Reloading,
    dispatchers: dict[str, TurnDispatcher],
    draining: Draining,
) -> Heartbeat:
    settings = reloading.settings
    ready = tuple(base for base, one in dispatchers.items() if one.process.is_offered)
    return Heartbeat(
        envelope=Envelope(),
        worker=worker,
        role=WorkerRole.SAMPLER,
        offers=() if draining.is_draining else ready,
        drained_offers=ready if draining.is_draining else (),
        loading=tuple(base for base in settings.base_models if base not in ready),
        may_load=() if draining.is_draining else reloading.may_load,
        cannot_load=reloading.cannot_load,
        interval_s=INTERVAL_S,
        capacity=settings.max_batch * len(settings.base_models),
        in_flight=sum(dispatcher.turns.n_open for dispatcher in dispatchers.values()),
        n_done=sum(dispatcher.turns.n_done for dispatcher in dispatchers.values()),
        is_draining=draining.is_draining,
        host=socket.gethostname(),
        pid=os.getpid(),
    )
