"""A sampler of a tiny model at the far end of a queue, and a gateway in front of it."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
from tests.support.engines import settings_for
from tests.support.episodes import EnvironmentSide, environment_side, first_turn, policy, user
from tests.support.gateway import Gateway, open_gateway

from warren_broker.memory import MemoryHub, open_hub
from warren_gateway.store.store import Store
from warren_gpu_worker.base_models import load_tokenizer
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_gpu_worker.settings import EngineName, OnNewWeights
from warren_schemas.config import Sampling
from warren_schemas.control import WorkerRole
from warren_schemas.episode import Generate, PolicyRef

BASE = "warren/tiny-lora"
"""The name under which the model is offered."""
LIMITS = {"max_batch": 64, "max_batch_tokens": 65_536}
_N_DIGITS = 24
_START_S = 600.0


@dataclass(frozen=True)
class Place:
    hub: MemoryHub
    side: EnvironmentSide
    gateway: Gateway
    asker: Executor
    """Who asks the gateway, in a process."""


def contents(n: int) -> list[str]:
    """What the first messages say, always the same."""
    digits = np.random.default_rng(0).integers(0, 10, (n, _N_DIGITS))
    return ["".join(map(str, row)) for row in digits]


def turns(of: PolicyRef, n: int, sampling: Sampling) -> list[Generate]:
    return [first_turn(of, user(content), sampling=sampling) for content in contents(n)]


def prompts(folder: str, n: int) -> list[list[int]]:
    """The same as token ids."""
    tokenizer = load_tokenizer(folder)
    ids = [tokenizer(content, add_special_tokens=False)["input_ids"] for content in contents(n)]
    return [[2, *cast("list[int]", of_one)] for of_one in ids]


@asynccontextmanager
async def opened_place(
    name: EngineName, folder: str, on_new_weights: OnNewWeights = "keep", **changes: object
) -> AsyncGenerator[Place]:
    """All of it in this process but the engine; it has answered once. `changes`: of its settings."""
    settings = settings_for(
        name,
        folder,
        base_models={BASE: folder},
        roles=frozenset({"sampler"}),
        on_new_weights=on_new_weights,
        **{**LIMITS, **changes},
    )
    with TemporaryDirectory() as home:
        store = await Store.open(f"sqlite:///{home}/warren.db")
        async with (
            open_hub(Path(home) / "broker") as hub,
            environment_side(hub) as side,
            open_gateway(store, hub.client("gateway"), Path(home) / "runs") as gateway,
            running(
                gateway.services.registry.run(),
                gateway.services.sampler_requests.run(),
                serve_sampler(hub.client("sampler"), settings),
            ),
        ):
            await side.send(turns(policy(BASE), 1, Sampling(max_tokens=1)))
            await side.steps(1, timeout_s=_START_S)
            await _until_offered(gateway)
            with ProcessPoolExecutor(1, get_context("spawn")) as asker:
                yield Place(hub, side, gateway, asker)
        await store.close()


async def _until_offered(gateway: Gateway) -> None:
    registry = gateway.services.registry
    async with asyncio.timeout(_START_S):
        while not any(BASE in sampler.offers for sampler in registry.alive(WorkerRole.SAMPLER)):
            await registry.changed(registry.generation)


@asynccontextmanager
async def running(*services: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(service) for service in services]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
