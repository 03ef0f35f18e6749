"""`python -m tests.chaos.gpu_worker`: the real GPU worker, whose children only sleep.

Everything that speaks to the broker is the program that users run; the models are not.
"""

import asyncio
import logging
import os
from functools import partial

import uvloop

from warren_broker.connect import open_broker
from warren_broker.worker.lifecycle import calm_garbage_collector, until_stopped
from warren_gpu_worker.sampler.supervisor.child_process import SamplerProcess
from warren_gpu_worker.service import serve_gpu_worker
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses

BASE_MODEL = "sim"
MAX_MODELS = int(os.environ.get("CHAOS_MAX_MODELS", "16"))


async def serve() -> None:
    calm_garbage_collector()
    settings = GpuWorkerSettings(base_models={BASE_MODEL: "/"}, max_models=MAX_MODELS)
    async with open_broker(os.environ["WARREN_BROKER_URL"], name="gpu-worker") as broker:
        await serve_gpu_worker(
            broker,
            settings,
            make_sampler_process=partial(SamplerProcess, module="tests.chaos.sampler_child"),
            spawn_ranks=partial(RankProcesses.spawn, module="tests.chaos.trainer_child"),
        )


def main() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_stopped(serve()))


if __name__ == "__main__":
    main()
