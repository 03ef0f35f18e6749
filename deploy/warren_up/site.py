"""A site: gateway, GPU worker and env worker of one machine, on the in-process broker and SQLite.

Invariants: all of it lies in one folder, `home`; a part that fails ends the others, and the site
with the reason; leaving the context has stopped every part and every child process.
"""

import asyncio
import fcntl
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from warren.errors import ConfigurationError, WarrenError
from warren_broker.memory import MemoryHub, open_hub
from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_gateway.auth import InvalidKey
from warren_gateway.service import CannotListen, serve_gateway
from warren_gateway.settings import GatewaySettings
from warren_gateway.store.store import StoreUnavailable
from warren_gpu_worker.base_models import UnknownBaseModel, resolve_base_models
from warren_gpu_worker.service import serve_gpu_worker
from warren_gpu_worker.settings import GpuWorkerSettings

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

    def gateway(self) -> GatewaySettings:
        return GatewaySettings(home=self.home, host=self.host, port=self.port)

    def gpu_worker(self) -> GpuWorkerSettings:
        """Builds or downloads the base models; blocks. Raises `UnknownBaseModel`."""
        return GpuWorkerSettings(
            base_models=resolve_base_models(self.base_models, self.home / "models"),
            checkpoint_url=(self.home / "checkpoints").as_uri(),
            log_dir=self.logs,
        )

    def env_worker(self) -> EnvWorkerSettings:
        return EnvWorkerSettings(environments=self.environments)


@asynccontextmanager
async def running(site: Site) -> AsyncGenerator[None]:
    """All parts; entered once the gateway listens and the workers are starting.

    A part that can't start, or fails later, ends all of it with a `WarrenError` (in a group).
    """
    with _claimed(site.home):
        async with open_hub(site.home / "streams") as hub, asyncio.TaskGroup() as parts:
            tasks = await _start(site, hub, parts)
            yield
            for task in tasks:
                task.cancel()


async def _start(site: Site, hub: MemoryHub, parts: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
    listening = asyncio.Event()

    async def gateway(broker: Broker) -> None:
        await serve_gateway(broker, site.gateway(), ready=listening)

    async def gpu_worker(broker: Broker) -> None:
        settings = await asyncio.to_thread(site.gpu_worker)
        await serve_gpu_worker(broker, settings)

    async def env_worker(broker: Broker) -> None:
        await serve_env_worker(broker, site.env_worker())

    tasks = [parts.create_task(_part(hub, "gateway", gateway), name="gateway")]
    await listening.wait()
    for name, serve in (("gpu-worker", gpu_worker), ("env-worker", env_worker)):
        tasks.append(parts.create_task(_part(hub, name, serve), name=name))
    return tasks


async def _part(hub: MemoryHub, name: str, serve: Callable[[Broker], Awaitable[None]]) -> None:
    """One program with a broker client of its own, which hands back what it held."""
    broker = hub.client(name)
    try:
        await serve(broker)
    except (CannotListen, StoreUnavailable, InvalidKey, UnknownBaseModel, OSError) as error:
        log.error("%s has stopped: %s", name, error)
        raise _told(name, error) from error
    finally:
        await broker.close()
    raise WarrenError(f"The {name} has ended by itself", hint="Its log says why.")


def _told(part: str, error: Exception) -> WarrenError:
    """The failure of a part, as an error that says the next thing to do."""
    if isinstance(error, UnknownBaseModel):
        hint = "Choose another one with --base-model; warren/tiny is built in."
        return ConfigurationError(f"Unknown base model: {error}", hint=hint)
    if isinstance(error, CannotListen):
        message = str(error)
        return ConfigurationError(message[:1].upper() + message[1:])
    return WarrenError(f"The {part} can't go on: {error}", hint="Is --home yours to write to?")


@contextmanager
def _claimed(home: Path) -> Generator[None]:
    """Two sites in one folder would write over each other; the lock ends with its process."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"Another `warren up` runs in {home}",
                hint="Use that one, stop it, or give another folder with --home.",
            ) from None
        yield
