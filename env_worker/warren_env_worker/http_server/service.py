"""The server as a service: a host, its episodes and a listener, until it is cancelled."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from warren_env_worker.host.host import Host
from warren_env_worker.host.startup import EnvironmentUnusable
from warren_env_worker.http_server.bodies import Begin
from warren_env_worker.http_server.description import Described, describe, spec_of
from warren_env_worker.http_server.episodes import Episodes
from warren_env_worker.http_server.routes import Routes
from warren_env_worker.http_server.settings import HttpServerSettings
from warren_env_worker.listening import listening
from warren_env_worker.registry import hosted
from warren_env_worker.served_episode import Episode, EpisodeFailed
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.operator_policy import TRUSTING

log = logging.getLogger(__name__)


async def serve_environment(settings: HttpServerSettings, hosting: EnvWorkerSettings) -> None:
    """Until cancelled. Raises `ConfigurationError`, `EnvironmentUnusable`."""
    async with serving(settings, hosting) as url:
        log.info("serving %s at %s", *hosting.environments, url)
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def serving(settings: HttpServerSettings, hosting: EnvWorkerSettings) -> AsyncGenerator[str]:
    """The URL at which it listens while the context lasts. Raises the same."""
    async with hosted(hosting, TRUSTING) as found:
        ((name, host),) = found.hosts.items()
        described = await _described(name, host, settings)
        open_episode = partial(_opened, host, described, settings)
        episodes = Episodes(open_episode, capacity=settings.capacity, idle_s=settings.idle_s)
        async with asyncio.TaskGroup() as group:
            expiring = group.create_task(episodes.expire(), name="forget idle episodes")
            app = Routes(described, episodes, api_key=settings.api_key).app()
            try:
                async with listening(app, settings.host, settings.port) as url:
                    yield url
            finally:
                expiring.cancel()
                episodes.end()


async def _described(name: str, host: Host, settings: HttpServerSettings) -> Described:
    try:
        return await describe(name, host, settings)
    except EpisodeFailed as failed:
        raise EnvironmentUnusable(
            f"{name} can't be served: {failed}",
            hint="Correct --config or --split; `warren env check` plays it here.",
        ) from failed


def _opened(
    host: Host, described: Described, settings: HttpServerSettings, begin: Begin
) -> Episode:
    demonstrates = described.can_demonstrate
    return Episode(host, spec_of(described.name, begin, settings, demonstrates=demonstrates))
