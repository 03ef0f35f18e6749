"""A GPU worker: the roles it plays, side by side until one of them fails or it is stopped."""

import asyncio

from warren_broker.port import Broker
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.time_share import TimeShare
from warren_gpu_worker.trainer.supervisor.service import serve_trainer


async def serve_gpu_worker(broker: Broker, settings: GpuWorkerSettings) -> None:
    """Play the roles of the settings until cancelled; what is held then goes back.

    Raises what the roles raise, in an exception group: `SamplerBroken`, `BrokerClosed`, …
    """
    time_share = TimeShare()
    async with asyncio.TaskGroup() as roles:
        if "sampler" in settings.roles:
            roles.create_task(
                serve_sampler(broker, settings, time_share=time_share), name="sampler"
            )
        if "trainer" in settings.roles:
            roles.create_task(
                serve_trainer(broker, settings, time_share=time_share), name="trainer"
            )
