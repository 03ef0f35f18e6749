"""`python -m benchmarks.tinker.no_compute HOME PORT MODEL`: gateway and GPU worker in one process, as `warren up` has them."""

import asyncio
import sys
from functools import partial
from pathlib import Path

import uvloop
from tests.ecosystems.tinker.table import BASE

from warren_broker.memory import open_hub
from warren_broker.worker.lifecycle import calm_garbage_collector, until_stopped
from warren_gateway.service import serve_gateway
from warren_gateway.settings import GatewaySettings
from warren_gpu_worker.sampler.supervisor.child_process import SamplerProcess
from warren_gpu_worker.service import serve_gpu_worker
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses

SAMPLER, TRAINER = (f"benchmarks.tinker.no_compute.{role}_child" for role in ("sampler", "trainer"))


async def serve(home: Path, port: int, model: str) -> None:
    calm_garbage_collector()
    gateway = GatewaySettings(home=home, port=port)
    gpu = GpuWorkerSettings(base_models={BASE: model}, checkpoint_url=(home / "kept").as_uri())
    async with open_hub(home / "streams") as hub, asyncio.TaskGroup() as parts:
        parts.create_task(serve_gateway(hub.client("gateway"), gateway))
        await serve_gpu_worker(
            hub.client("gpu-worker"),
            gpu,
            make_sampler_process=partial(SamplerProcess, module=SAMPLER),
            spawn_ranks=partial(RankProcesses.spawn, module=TRAINER),
        )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_stopped(serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
