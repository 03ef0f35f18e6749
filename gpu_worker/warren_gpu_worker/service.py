"""A GPU worker: the roles it plays, side by side until one of them fails, it is stopped, or it is to load another
base model (`reloading`)."""

import asyncio
from collections.abc import Coroutine
from functools import partial

from warren_broker.port import Broker
from warren_gpu_worker.forking import spawning
from warren_gpu_worker.reloading import Reloading
from warren_gpu_worker.sampler.supervisor.child_process import SamplerProcess
from warren_gpu_worker.sampler.supervisor.gpus import samplers_of
from warren_gpu_worker.sampler.supervisor.greeting import SamplerBroken
from warren_gpu_worker.sampler.supervisor.process_factory import MakeSamplerProcess
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.time_share import TimeShare
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses, SpawnRanks
from warren_gpu_worker.trainer.supervisor.service import serve_trainer


async def serve_gpu_worker(
    broker: Broker,
    settings: GpuWorkerSettings,
    *,
    make_sampler_process: MakeSamplerProcess | None = None,
    spawn_ranks: SpawnRanks | None = None,
) -> None:
    """Play the roles of the settings until cancelled; what is held then goes back.

    Raises what the roles raise, in an exception group: `SamplerBroken`, `BrokerClosed`, …
    """
    reloading = Reloading(settings)
    async with spawning(settings) as spawn_child:
        make_sampler_process = make_sampler_process or partial(
            SamplerProcess, spawn_child=spawn_child
        )
        spawn_ranks = spawn_ranks or partial(RankProcesses.spawn, spawn_child=spawn_child)
        while True:
            settings = reloading.play()
            roles = _play_roles(broker, settings, reloading, make_sampler_process, spawn_ranks)
            await until_played_anew(reloading, roles)


async def until_played_anew(reloading: Reloading, roles: Coroutine[object, None, None]) -> None:
    """Play the roles until they are to begin again with what `reloading` has next.

    Raises what the roles raise, unless another base model can take the broken one's place. It can't once the worker is
    stopped: before Python 3.13 a task group that ends by an error of its own drops a cancellation that comes meanwhile,
    and the worker would go on.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            playing = tasks.create_task(roles, name="roles")
            await reloading.until_due()
            playing.cancel()
    except* SamplerBroken:
        if _is_stopped() or not reloading.go_back():
            raise


def _is_stopped() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _play_roles(
    broker: Broker,
    settings: GpuWorkerSettings,
    reloading: Reloading,
    make_sampler_process: MakeSamplerProcess,
    spawn_ranks: SpawnRanks,
) -> None:
    time_share = TimeShare()
    async with asyncio.TaskGroup() as roles:
        if "sampler" in settings.roles:
            for place, own in enumerate(samplers_of(settings)):
                sampling = serve_sampler(
                    broker,
                    own,
                    time_share=time_share,
                    make_process=make_sampler_process,
                    reloading=None if place else reloading,  # several load nothing else
                )
                roles.create_task(sampling, name=f"sampler {place}")
        if "trainer" in settings.roles:
            training = serve_trainer(
                broker,
                settings,
                time_share=time_share,
                spawn_ranks=spawn_ranks,
                reloading=reloading,
            )
            roles.create_task(training, name="trainer")
