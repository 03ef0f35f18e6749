"""A whole deployment inside the test's own process, on either broker; the engines' children are real."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.built_models import own_model
from tests.support.forked_models import make_sampler_process, spawn_ranks
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import free_port

import warren
from warren_broker.memory import open_hub
from warren_broker.port import Broker
from warren_broker.rabbitmq import open_rabbitmq
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.service import serve_gateway
from warren_gateway.settings import GatewaySettings
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_gpu_worker.service import serve_gpu_worker
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.supervisor.service import serve_trainer
from warren_schemas.operator_policy import TRUSTING

Program = Callable[[Broker], Coroutine[Any, Any, None]]
OpenPlace = Callable[[], AbstractAsyncContextManager[Callable[[str], Awaitable[Broker]]]]
"""Opens a broker; what that gives opens a client of it, by name."""


@dataclass
class Site:
    """The programs of one deployment, in this process; their children are real."""

    home: Path
    open_place: OpenPlace
    gpu: GpuWorkerSettings
    budgets: BudgetOptions = field(default_factory=BudgetOptions)
    """Of the gateway."""
    url: str = ""
    """Of the gateway, once it runs."""

    @asynccontextmanager
    async def running(self, *programs: Program) -> AsyncGenerator[warren.Client]:
        """A client of the gateway while it and these programs run."""
        settings = GatewaySettings(home=self.home, port=free_port(), **dict(self.budgets))
        self.url = f"http://127.0.0.1:{settings.port}"
        listening = asyncio.Event()
        async with self.open_place() as client_named, asyncio.TaskGroup() as tasks:
            gateway = serve_gateway(await client_named("gateway"), settings, ready=listening)
            running = [tasks.create_task(gateway)]
            await listening.wait()
            for number, program in enumerate(programs):
                running.append(tasks.create_task(program(await client_named(f"part {number}"))))
            key = settings.key_file.read_text().strip()
            async with warren.connect(self.url, key) as client:
                yield client
            for task in running:
                task.cancel()

    async def gpu_worker(self, broker: Broker) -> None:
        await serve_gpu_worker(
            broker, self.gpu, make_sampler_process=make_sampler_process, spawn_ranks=spawn_ranks
        )

    async def trainer(self, broker: Broker) -> None:
        await serve_trainer(broker, self.gpu, spawn_ranks=spawn_ranks)

    async def sampler(self, broker: Broker) -> None:
        await serve_sampler(broker, self.gpu, make_process=make_sampler_process)

    async def env_worker(self, broker: Broker) -> None:
        await serve_env_worker(broker, EnvWorkerSettings(), policy=TRUSTING)


def tiny_site(folder: Path, open_place: OpenPlace) -> Site:
    """A deployment on the CPU that knows the tiny base model and keeps everything in this folder."""
    models = {"warren/tiny": str(own_model("warren/tiny", folder))}
    gpu = GpuWorkerSettings(
        base_models=models, checkpoint_url=(folder / "checkpoints").as_uri(), device="cpu", seed=0
    )
    return Site(folder, open_place, gpu)


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
