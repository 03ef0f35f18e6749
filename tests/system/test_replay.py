"""Replays through the real trainer: a run is recorded, everything is stopped, and then replayed.

While it is replayed there is neither a sampler nor an env worker.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import free_port

import warren
from warren_broker.memory import open_hub
from warren_broker.port import Broker
from warren_broker.rabbitmq import open_rabbitmq
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_gateway.service import serve_gateway
from warren_gateway.settings import GatewaySettings
from warren_gpu_worker.base_models import resolve_base_models
from warren_gpu_worker.service import serve_gpu_worker
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.service import serve_trainer
from warren_schemas.config import TrainConfig
from warren_schemas.events import StepCompleted
from warren_up.recipe import guess_config

pytestmark = pytest.mark.timeout(900)

N_WARMUP_STEPS = 60
"""Enough for episodes that are not all alike, so that there is something to learn."""

Program = Callable[[Broker], Coroutine[Any, Any, None]]
OpenPlace = Callable[[], AbstractAsyncContextManager[Callable[[str], Awaitable[Broker]]]]
"""Opens a broker; what that gives opens a client of it, by name."""


def small_config() -> TrainConfig:
    """The demo's recipe, in small, and without anything that a policy would have to play."""
    config = guess_config(steps=6).model_dump()
    config["warmup"] |= {"steps": N_WARMUP_STEPS}
    config["algorithm"] |= {"group_size": 8, "groups_per_step": 4, "max_staleness": 3}
    config["limits"] |= {"stop_at_reward": None}
    config["checkpoint"] |= {"every_steps": 4}
    return TrainConfig.model_validate(config | {"evaluation": None})


@dataclass
class Site:
    """The programs of one deployment, in this process; their children are real."""

    home: Path
    open_place: OpenPlace
    gpu: GpuWorkerSettings

    @asynccontextmanager
    async def running(self, *programs: Program) -> AsyncGenerator[warren.Client]:
        """A client of the gateway while it and these programs run."""
        settings = GatewaySettings(home=self.home, port=free_port())
        listening = asyncio.Event()
        async with self.open_place() as client_named, asyncio.TaskGroup() as tasks:
            gateway = serve_gateway(await client_named("gateway"), settings, ready=listening)
            running = [tasks.create_task(gateway)]
            await listening.wait()
            for number, program in enumerate(programs):
                running.append(tasks.create_task(program(await client_named(f"part {number}"))))
            key = settings.key_file.read_text().strip()
            async with warren.connect(f"http://127.0.0.1:{settings.port}", key) as client:
                yield client
            for task in running:
                task.cancel()

    async def gpu_worker(self, broker: Broker) -> None:
        await serve_gpu_worker(broker, self.gpu)

    async def trainer(self, broker: Broker) -> None:
        await serve_trainer(broker, self.gpu)

    async def env_worker(self, broker: Broker) -> None:
        await serve_env_worker(broker, EnvWorkerSettings())


@pytest.fixture(params=["in-process", "rabbitmq"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> OpenPlace:
    if request.param == "in-process":
        return lambda: in_process(tmp_path / "streams")
    rabbit: PrivateRabbit = request.getfixturevalue("own_rabbit")
    return lambda: on_rabbitmq(rabbit)


@pytest.fixture
def own_rabbit(tmp_path: Path) -> Generator[PrivateRabbit]:
    """A node of this test's own: it is killed between the recording and the replay."""
    folder = tmp_path / "rabbit"
    folder.mkdir()
    rabbit = PrivateRabbit(folder)
    yield rabbit
    rabbit.close()


@asynccontextmanager
async def in_process(folder: Path) -> AsyncGenerator[Callable[[str], Awaitable[Broker]]]:
    async with open_hub(folder) as hub:

        async def client(name: str) -> Broker:
            return hub.client(name)

        yield client


@asynccontextmanager
async def on_rabbitmq(rabbit: PrivateRabbit) -> AsyncGenerator[Callable[[str], Awaitable[Broker]]]:
    """The server starts and is killed with the place."""
    rabbit.spawn()
    await asyncio.to_thread(rabbit.wait_until_ready)
    async with AsyncExitStack() as stack:
        stack.callback(rabbit.kill)

        async def client(name: str) -> Broker:
            return await stack.enter_async_context(open_rabbitmq(rabbit.url, name=name))

        yield client


@pytest.fixture
def site(tmp_path: Path, place: OpenPlace) -> Site:
    models = resolve_base_models(("warren/tiny",), tmp_path / "models")
    gpu = GpuWorkerSettings(
        base_models=models, checkpoint_url=(tmp_path / "checkpoints").as_uri(), device="cpu"
    )
    return Site(tmp_path, place, gpu)


def weights_of(result: warren.RunResult) -> str:
    """A digest of the exact bits of the newest policy."""
    assert result.policy_url is not None
    files = sorted(Path(urlsplit(result.policy_url).path).glob("*.safetensors"))
    assert files
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


async def test_a_recording_replayed_twice_gives_the_same_bits(site: Site) -> None:
    """After a restart of everything; and another loss gives others, and tells how far off they are."""
    # A trainer for each: a model of full weights has its worker to itself, and the replay might
    # be the one that gets it while the run that it follows can't begin.
    async with site.running(site.gpu_worker, site.trainer, site.env_worker) as client:
        recorded = await client.train(small_config())
        live = await client.replay(recorded, small_config())  # while it is still going
        _, followed = await recorded.result(), await live.result()

    async with site.running(site.trainer) as client:
        replays = [await client.replay(recorded.id, small_config()) for _ in range(2)]
        first, second = [await replay.result() for replay in replays]
        other = small_config().model_dump(exclude={"source"})
        other["algorithm"]["loss"] = {"kind": "importance_sampling"}
        other["optimizer"]["learning_rate"] *= 5
        changed = await client.replay(recorded.id, other)
        third = await changed.result()
        steps = [event.body async for event in changed.events()]
        n_read = len([view async for view in (await client.run(recorded.id)).trajectories()])

    assert weights_of(first) == weights_of(second) == weights_of(followed)
    assert weights_of(third) != weights_of(first)
    assert first.updates == second.updates == followed.updates > 0
    assert first.episodes == N_WARMUP_STEPS * 32 + 6 * 32
    assert n_read >= first.episodes
    trained = [b.metrics for b in steps if isinstance(b, StepCompleted) and b.phase == "training"]
    off_policy = [m for m in trained if "policy/kl_k3" in m]
    assert {"policy/ratio_mean", "policy/ratio_max", "policy/ess_frac"} <= set(off_policy[-1])
    assert off_policy[-1]["policy/kl_k3"] > off_policy[0]["policy/kl_k3"] >= 0.0
    assert "stale/lag_mean" not in trained[-1]
