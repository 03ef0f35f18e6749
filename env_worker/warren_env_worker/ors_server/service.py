"""The server as a service: hosts, sessions and a listener, until it is cancelled.

Invariant: what was served ends with it, within `listening.SHUTDOWN_S` and the time that children take to leave.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from warren_env_worker.listening import listening
from warren_env_worker.ors_server.catalogue import Catalogue
from warren_env_worker.ors_server.routes import Routes
from warren_env_worker.ors_server.sessions import Sessions
from warren_env_worker.ors_server.settings import OrsServerSettings, served_by_name
from warren_env_worker.registry import hosted
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.operator_policy import OperatorPolicy

log = logging.getLogger(__name__)


async def serve_ors(
    settings: OrsServerSettings, hosting: EnvWorkerSettings, policy: OperatorPolicy
) -> None:
    """Until cancelled. Raises `ConfigurationError`, `EnvironmentUnusable`."""
    async with serving(settings, hosting, policy) as url:
        log.info("serving ORS at %s", url)
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def serving(
    settings: OrsServerSettings, hosting: EnvWorkerSettings, policy: OperatorPolicy
) -> AsyncGenerator[str]:
    """The URL at which it listens while the context lasts. Raises the same."""
    served = served_by_name(settings.settings)
    async with hosted(hosting, policy) as found:
        catalogue = Catalogue(found.hosts, served, seed=settings.seed, capacity=hosting.capacity)
        async with asyncio.TaskGroup() as group:
            sessions = Sessions(catalogue, group, idle_s=settings.idle_s)
            expiring = group.create_task(sessions.expire(), name="expire sessions")
            app = Routes(catalogue, sessions, api_key=settings.api_key).app()
            try:
                async with listening(app, settings.host, settings.port) as url:
                    yield url
            finally:
                expiring.cancel()
                sessions.end()
