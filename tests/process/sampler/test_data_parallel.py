"""A worker with several samplers (`--data-parallel`): each has a child, and both take turns of one queue."""

import asyncio
from pathlib import Path

from tests.support.episodes import environment_side, first_turn, policy
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.sampler_stage import BASE

from warren_broker.inbox import listen
from warren_broker.memory import MemoryHub, open_hub
from warren_broker.topology import WORKERS
from warren_gpu_worker.service import serve_gpu_worker
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.config import Sampling
from warren_schemas.control import Heartbeat
from warren_schemas.ids import WorkerId

N = 2
SHORT = Sampling(max_tokens=4)


async def test_each_sampler_offers_the_model_and_answers(
    tiny_models: dict[str, str], tmp_path: Path
) -> None:
    settings = GpuWorkerSettings.model_validate(
        {
            "base_models": {BASE: tiny_models[BASE]},
            "roles": "sampler",
            "device": "cpu",
            "log_dir": tmp_path,
            "vllm": {"data_parallel": N},
        }
    )
    async with open_hub(tmp_path / "broker") as hub, environment_side(hub) as side:
        broker = hub.client("worker")
        worker = asyncio.create_task(serve_gpu_worker(broker, settings))
        try:
            async with asyncio.timeout(PATIENCE_S):
                offering = await samplers(hub)
            turns = [first_turn(policy(BASE), sampling=SHORT) for _ in range(40)]
            await side.send(turns)
            steps = await side.steps(len(turns))
        finally:
            worker.cancel()
            async with asyncio.timeout(STOP_S):
                await asyncio.wait([worker])
                await broker.close()
    assert {step.envelope.episode for step in steps} == {turn.envelope.episode for turn in turns}
    assert len(offering) == N


async def samplers(hub: MemoryHub) -> set[WorkerId]:
    """Those that offer the model, once all do."""
    found: set[WorkerId] = set()
    async with listen(hub.client("listener"), WORKERS, Heartbeat) as inbox:
        async for claims in inbox:
            for claim in claims:
                claim.done()
                if BASE in claim.item.offers:
                    found.add(claim.item.worker)
            if len(found) == N:
                break
    return found
