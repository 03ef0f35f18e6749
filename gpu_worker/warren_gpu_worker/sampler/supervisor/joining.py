"""A machine that joins the sampler of another one: its part of vLLM."""

import os
from functools import partial

from warren_broker.worker.child import Child
from warren_gpu_worker.machines.joining import stay_joined
from warren_gpu_worker.sampler.supervisor.gpus import own_gpus
from warren_gpu_worker.sampler.supervisor.greeting import SamplerBroken
from warren_gpu_worker.settings import GpuWorkerSettings

JOINED_MODULE = "warren_gpu_worker.sampler.child.joined"


async def join_sampler(settings: GpuWorkerSettings) -> None:
    """Never returns (`stay_joined`). Raises `SamplerBroken` if too few GPUs are visible."""
    try:
        told, variables = own_gpus(settings, os.environ)
    except ValueError as error:
        raise SamplerBroken(str(error)) from error
    start = partial(
        Child.spawn,
        f"a part of the sampler at {settings.rendezvous}",
        JOINED_MODULE,
        (told.model_dump_json(),),
        n_threads=settings.n_threads,
        environment=variables,
        log_path=settings.log_path("sampler-joined"),
    )
    await stay_joined(start)
