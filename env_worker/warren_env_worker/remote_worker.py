"""Remote env workers: a user's own, connected to a gateway in place of a broker."""

from warren.errors import AuthenticationError
from warren.settings import Settings
from warren_broker.remote import open_remote
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.ids import new_worker_id
from warren_schemas.operator_policy import TRUSTING, OperatorPolicy


async def serve_remote(
    where: Settings, settings: EnvWorkerSettings, policy: OperatorPolicy
) -> None:
    """Serve until cancelled. Raises `AuthenticationError` without a key, and what `serve_env_worker` raises."""
    if where.api_key is None:
        raise AuthenticationError(
            f"No API key for {where.url} ({where.key_source})",
            hint="Set WARREN_API_KEY to a key of that gateway; an admin there makes one with `warren users add NAME`.",
        )
    async with open_remote(where.url, api_key=where.api_key, worker=settings.worker) as broker:
        await serve_env_worker(broker, settings, policy=policy, owner=broker.owner)


async def host_remote(where: Settings, environment: str, capacity: int) -> None:
    """Host one environment (`name=module:Class`) in this process, for `warren.Client.episodes`."""
    settings = EnvWorkerSettings(
        environments=(environment,),
        only_named=True,
        capacity=capacity,
        worker=new_worker_id("env"),
    )
    await serve_remote(where, settings, TRUSTING)
