"""A gateway's HTTP side with a real sampler of the tiny model behind its queue."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.forked_models import make_sampler_process
from tests.support.gateway import Gateway, open_gateway
from tests.support.patience import PATIENCE_S

from warren_broker.memory import open_hub
from warren_gateway.store.store import Store
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.control import WorkerRole

BASE = "warren/tiny"


@asynccontextmanager
async def sampling_gateway(folder: Path, model_folder: str) -> AsyncGenerator[Gateway]:
    store = await Store.open(f"sqlite:///{folder / 'warren.db'}")
    settings = GpuWorkerSettings(
        base_models={BASE: model_folder},
        roles=frozenset({"sampler"}),
        engine="transformers",
        seed=0,
        log_dir=folder,
    )
    async with (
        open_hub(folder / "broker") as hub,
        open_gateway(store, hub.client("gateway"), folder / "runs") as gateway,
        running(
            gateway.services.registry.run(),
            gateway.services.sampler_requests.run(),
            gateway.services.tinker.futures.run(),
        ),
        running(serve_sampler(hub.client("sampler"), settings, make_process=make_sampler_process)),
    ):
        await until_sampled(gateway)
        yield gateway
    await store.close()


@asynccontextmanager
async def running(*services: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(service) for service in services]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def until_sampled(gateway: Gateway) -> None:
    registry = gateway.services.registry
    async with asyncio.timeout(PATIENCE_S):
        while True:
            generation = registry.generation
            if any(BASE in sampler.offers for sampler in registry.alive(WorkerRole.SAMPLER)):
                return
            await registry.changed(generation)
