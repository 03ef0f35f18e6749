"""A sampler with its engine in a real child process, and the other end of its queues."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from tests.support.episodes import EnvironmentSide, environment_side
from tests.support.forked_models import make_sampler_process
from tests.support.patience import STOP_S

from warren_broker.memory import MemoryHub, open_hub
from warren_broker.topology import CANCELLATIONS, POLICIES, RUNS
from warren_gpu_worker.sampler.messages import FinishedTurn, TurnRequest
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.codec.wire import encode
from warren_schemas.config import Sampling
from warren_schemas.control import EpisodeCancelled, PolicyPublished, RunEnded
from warren_schemas.episode import FinishReason

BASE, BASE_LORA = "warren/tiny", "warren/tiny-lora"
LONG = Sampling(max_tokens=450)
"""5 s, on a machine with nothing else to do."""

shared = pytest.mark.asyncio(loop_scope="module")
"""For tests that use `stage`."""


@asynccontextmanager
async def sampler(
    hub: MemoryHub, settings: GpuWorkerSettings
) -> AsyncGenerator["asyncio.Task[None]"]:
    """A running sampler, which must be gone soon after it is told to stop."""
    broker = hub.client("sampler")
    task = asyncio.create_task(serve_sampler(broker, settings, make_process=make_sampler_process))
    try:
        yield task
    finally:
        task.cancel()
        async with asyncio.timeout(STOP_S):
            await asyncio.wait([task])
            await broker.close()


def settings_of(models: dict[str, str], log_dir: Path) -> GpuWorkerSettings:
    return GpuWorkerSettings(
        base_models=models, roles=frozenset({"sampler"}), log_dir=log_dir, seed=0
    )


def one_token(request: TurnRequest) -> FinishedTurn:
    """The answer of an engine that samples one token, whatever it is asked."""
    ids_T = np.zeros(1, np.int32)
    return FinishedTurn(
        id=request.id,
        prompt_ids_T=ids_T,
        ids_T=ids_T,
        logprobs_T=ids_T.astype(np.float32),
        versions_T=ids_T,
        text="a",
        finish=FinishReason.STOP,
    )


@dataclass(frozen=True)
class Stage:
    """A sampler of both tiny models, and the other end of its queues."""

    hub: MemoryHub
    side: EnvironmentSide

    async def tell(self, topic_item: PolicyPublished | RunEnded | EpisodeCancelled) -> None:
        broker = self.hub.client("announcer")
        topic = {PolicyPublished: POLICIES, RunEnded: RUNS, EpisodeCancelled: CANCELLATIONS}
        await broker.publish(
            topic[type(topic_item)], encode([topic_item]), message_id=topic_item.envelope.id
        )
        await broker.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(
    tiny_models: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    async with (
        open_hub(folder / "broker") as hub,
        sampler(hub, settings_of(tiny_models, folder)),
        environment_side(hub) as side,
    ):
        yield Stage(hub, side)
