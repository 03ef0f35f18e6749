"""A site: gateway, GPU worker and env worker of one machine, on the in-process broker and SQLite.

Invariants: all of it lies in one folder, `home`; a part that fails ends the others, and the site
with the reason; leaving the context has stopped every part and every child process.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from warren_broker.memory import MemoryHub, open_hub
from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_gateway.service import serve_gateway
from warren_gateway.settings import GatewaySettings
from warren_gpu_worker.base_models import resolve_base_models
from warren_gpu_worker.service import serve_gpu_worker
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_up.failures import told
from warren_up.folder import claimed
from warren_up.readiness import Tell, workers_ready

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Site:
    home: Path
    port: int
    host: str = "127.0.0.1"
    base_models: tuple[str, ...] = ("warren/tiny",)
    environments: tuple[str, ...] = ()
    """`module:Class` each, beside those that are installed."""

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def key_file(self) -> Path:
        return self.home / "api-key"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def log_file(self) -> Path:
        return self.logs / "warren.log"

    def gateway(self) -> GatewaySettings:
        return GatewaySettings(home=self.home, host=self.host, port=self.port)

    def gpu_worker(self) -> GpuWorkerSettings:
        """Builds or downloads the base models; blocks. Raises `UnknownBaseModel`."""
        return GpuWorkerSettings(
            base_models=resolve_base_models(self.base_models, self.home / "models"),
            checkpoint_url=(self.home / "checkpoints").as_uri(),
            log_dir=self.logs,
            seed=0,  # of the only sampler, which need not differ from others
        )

    def env_worker(self) -> EnvWorkerSettings:
        return EnvWorkerSettings(environments=self.environments, log_dir=self.logs)


@asynccontextmanager
async def running(site: Site, tell: Tell) -> AsyncGenerator[None]:
    """All parts; entered once each is ready, which `tell` hears of one by one.

    A part that can't start, or fails later, ends all of it with a `WarrenError` (in a group).
    """
    with claimed(site.home):
        async with open_hub(site.home / "streams") as hub, asyncio.TaskGroup() as parts:
            tasks = await _start(site, hub, parts, tell)
            yield
            for task in tasks:
                task.cancel()


async def _start(
    site: Site, hub: MemoryHub, parts: asyncio.TaskGroup, tell: Tell
) -> list[asyncio.Task[None]]:
    listening = asyncio.Event()

    async def gateway(broker: Broker) -> None:
        await serve_gateway(broker, site.gateway(), ready=listening)

    async def gpu_worker(broker: Broker) -> None:
        settings = await asyncio.to_thread(site.gpu_worker)
        await serve_gpu_worker(broker, settings)

    async def env_worker(broker: Broker) -> None:
        await serve_env_worker(broker, site.env_worker())

    tasks = [parts.create_task(_part(site, hub, "gateway", gateway), name="gateway")]
    await listening.wait()
    tell("gateway", f"{site.url}, API key in {site.key_file}")
    for name, serve in (("gpu-worker", gpu_worker), ("env-worker", env_worker)):
        tasks.append(parts.create_task(_part(site, hub, name, serve), name=name))
    await _ready(hub, tell)
    return tasks


async def _ready(hub: MemoryHub, tell: Tell) -> None:
    broker = hub.client("readiness")
    try:
        await workers_ready(broker, tell)
    finally:
        await broker.close()


async def _part(
    site: Site, hub: MemoryHub, name: str, serve: Callable[[Broker], Awaitable[None]]
) -> None:
    """One program with a broker client of its own, which hands back what it held."""
    broker = hub.client(name)
    try:
        await serve(broker)
    except Exception as error:  # the edge of a part: logged, and told as a sentence
        log.error("the %s has stopped", name, exc_info=error)
        raise told(name, error, site.log_file) from error
    finally:
        await broker.close()
