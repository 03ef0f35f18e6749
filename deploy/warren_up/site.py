"""A site: gateway, GPU worker and env worker of one machine, on the in-process broker and SQLite.

Invariants: what it keeps lies in one folder, `home`, but for built-in base models, which are alike for
all sites of a user, and checkpoints that were sent elsewhere; a part that fails ends the others, and
the site with the reason; leaving the context has stopped every part and every child process.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from warren.settings import warren_home
from warren_broker.memory import MemoryHub, open_hub
from warren_broker.port import Broker
from warren_env_worker.options import ENV_DEFAULTS
from warren_env_worker.permissions.policy_file import policy_of
from warren_env_worker.settings import EnvWorkerSettings
from warren_gateway.options import SITE_DEFAULTS
from warren_gateway.settings import GatewayOptions, GatewaySettings
from warren_gpu_worker.options import GPU_DEFAULTS, chosen
from warren_gpu_worker.settings import GpuWorkerOptions, GpuWorkerSettings
from warren_schemas.operator_policy import TRUSTING
from warren_up.advice import StartAgain
from warren_up.failures import told
from warren_up.folder import claimed
from warren_up.readiness import workers_ready
from warren_up.start_view import StartListener

TINY = "warren/tiny"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Site:
    home: Path
    port: int
    host: str = "127.0.0.1"
    base_models: tuple[str, ...] = (TINY,)
    adapters: tuple[str, ...] = ()
    gateway_options: GatewayOptions = SITE_DEFAULTS
    """`home`, `host` and `port` are those above."""
    gpu_options: GpuWorkerOptions = GPU_DEFAULTS
    env_options: EnvWorkerSettings = ENV_DEFAULTS
    command: Sequence[str] = ("warren", "up")
    """What it was started with."""

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

    @property
    def advice(self) -> StartAgain:
        return StartAgain(self.command, self.base_models)

    def gateway(self) -> GatewaySettings:
        options = self.gateway_options
        given = {name: getattr(options, name) for name in options.model_fields_set}
        here = {"home": self.home, "host": self.host, "port": self.port}
        return GatewaySettings.model_validate({**given, **here})

    def gpu_worker(self, tell: Callable[[str], None]) -> GpuWorkerSettings:
        """Builds or downloads the base models; blocks. Raises `UnknownBaseModel`, `ValueError`."""
        return chosen(
            self.gpu_options,
            self.base_models,
            self.adapters,
            models_folder=warren_home() / "models",
            tell=tell,
            checkpoint_url=(self.home / "checkpoints").as_uri(),
            models_url=self.gateway().models_url,
            log_dir=self.logs,
            seed=0,  # of the only sampler, which need not differ from others
        )

    def env_worker(self) -> EnvWorkerSettings:
        return self.env_options.model_copy(update={"log_dir": self.logs})


@asynccontextmanager
async def running(site: Site, listener: StartListener) -> AsyncGenerator[None]:
    """All parts; entered once each is ready, which `listener` hears of one by one.

    A part that can't start, or fails later, ends all of it with a `WarrenError` (in a group).
    """
    with claimed(site.home):
        async with open_hub(site.home / "streams") as hub, asyncio.TaskGroup() as parts:
            tasks = await _Start(site, hub, parts, listener).run()
            yield
            for task in tasks:
                task.cancel()


class _Start:
    """What takes longest begins first: the GPU worker's children load while the gateway comes up."""

    def __init__(
        self, site: Site, hub: MemoryHub, parts: asyncio.TaskGroup, listener: StartListener
    ) -> None:
        self._site = site
        self._hub = hub
        self._parts = parts
        self._listener = listener
        self._gpu_settings: asyncio.Future[GpuWorkerSettings]
        self._gpu_settings = asyncio.get_running_loop().create_future()
        self._listening = asyncio.Event()

    async def run(self) -> list[asyncio.Task[None]]:
        tasks = [
            self._begin("gpu-worker", self._gpu_worker),
            self._begin("env-worker", self._env_worker),
            self._begin("gateway", self._gateway),
        ]
        await self._listening.wait()
        self._listener.ready("gateway", f"{self._site.url}, API key in {self._site.key_file}")
        await self._workers()
        return tasks

    def _begin(self, name: str, serve: Callable[[Broker], Awaitable[None]]) -> asyncio.Task[None]:
        return self._parts.create_task(_part(self._site, self._hub, name, serve), name=name)

    async def _gateway(self, broker: Broker) -> None:
        self._listener.doing("gateway", "opening the store")
        await asyncio.to_thread(import_module, "warren_gateway.service")
        from warren_gateway.service import serve_gateway

        site = self._site
        await serve_gateway(broker, site.gateway(), ready=self._listening, advice=site.advice)

    async def _gpu_worker(self, broker: Broker) -> None:
        settings = await self._prepare_base_models()
        await asyncio.to_thread(import_module, "warren_gpu_worker.service")
        from warren_gpu_worker.service import serve_gpu_worker

        for role in sorted(settings.roles):
            self._listener.doing(role, f"loading torch and {', '.join(settings.base_models)}")
        self._gpu_settings.set_result(settings)
        await serve_gpu_worker(broker, settings)

    async def _prepare_base_models(self) -> GpuWorkerSettings:
        had_to: list[str] = []

        def tell(what: str) -> None:
            had_to.append(what)
            self._listener.doing("base model", what)

        settings = await asyncio.to_thread(self._site.gpu_worker, tell)
        if had_to:
            self._listener.ready("base model", ", ".join(settings.base_models))
        return settings

    async def _env_worker(self, broker: Broker) -> None:
        self._listener.doing("environment", "loading environments")
        settings = self._site.env_worker()
        policy = policy_of(settings.operator_policy, otherwise=TRUSTING)
        await asyncio.to_thread(import_module, "warren_env_worker.service")
        from warren_env_worker.service import serve_env_worker

        await serve_env_worker(broker, settings, policy=policy)

    async def _workers(self) -> None:
        settings = await self._gpu_settings
        broker = self._hub.client("readiness")
        try:
            await workers_ready(
                broker, self._listener, roles=settings.roles, base_models=settings.base_models
            )
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
