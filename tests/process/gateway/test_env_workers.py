"""Env workers behind the gateway, with environments in processes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.support.brokers import PATIENCE_S
from tests.support.gateway import Gateway
from tests.support.interacting import endings, sampling, spec, start, start_all
from tests.support.remote_workers import broker, hub, remote

from warren_broker.inbox import listen
from warren_broker.memory import MemoryHub
from warren_broker.port import Broker
from warren_broker.topology import WORKERS, interact
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.control import Heartbeat
from warren_schemas.episode import Completed
from warren_schemas.http import WorkerList
from warren_schemas.ids import WorkerId

__all__ = ["broker", "hub"]

LETTERS = ("tests.support.environments:Letters",)


@asynccontextmanager
async def serving(
    gateway: Gateway, owner: str, worker: str
) -> AsyncGenerator["asyncio.Task[None]"]:
    """A remote env worker in this process."""
    settings = EnvWorkerSettings(environments=LETTERS, only_named=True, worker=WorkerId(worker))
    async with remote(gateway, owner, worker) as broker, listening(gateway.broker) as heard:
        serve = serve_env_worker(broker, settings, owner=broker.owner)
        task = asyncio.create_task(serve, name=worker)
        try:
            await asyncio.wait_for(heard(worker), PATIENCE_S)
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})


@asynccontextmanager
async def listening(broker: Broker):
    async with listen(broker, WORKERS, Heartbeat) as inbox:

        async def heard(worker: str) -> None:
            async for claims in inbox:
                for claim in claims:
                    claim.done()
                if any(claim.item.worker == worker for claim in claims):
                    return

        yield heard


async def test_an_owner_sees_his_own_episodes_and_nobody_elses(
    gateway: Gateway, hub: MemoryHub
) -> None:
    """Ann's, bob's and the deployment's, of one environment name, at the same time."""
    direct = hub.client("test")
    starts = {
        owner: [start(f"ep_{owner}_{i}", spec(owner=owner)) for i in range(20)]
        for owner in ("ann", "bob", None)
    }
    async with (
        serving(gateway, "ann", "env_a"),
        serving(gateway, "bob", "env_b"),
        sampling(direct),
    ):
        for given in starts.values():
            await start_all(direct, given)
        ended = await asyncio.wait_for(endings(direct, 40), PATIENCE_S)
    assert all(isinstance(item.outcome, Completed) for item in ended)
    workers = {item.spec.owner: item.worker for item in ended}
    assert workers == {"ann": "env_a", "bob": "env_b"}
    assert {item.worker for item in ended if item.spec.owner == "ann"} == {"env_a"}
    assert await direct.depth(interact("letters"))  # nobody of the deployment is there


async def test_only_the_owner_sees_his_worker(gateway: Gateway, broker: Broker) -> None:
    registry = asyncio.create_task(gateway.services.registry.run())
    before = gateway.services.registry.generation
    async with serving(gateway, "ann", "env_a"):
        await asyncio.wait_for(gateway.services.registry.changed(before), PATIENCE_S)
        for client, seen in ((gateway.ann, ["env_a"]), (gateway.bob, [])):
            async with client.get("/v1/workers") as response:
                listed = WorkerList.model_validate_json(await response.read()).workers
            assert [worker.id for worker in listed] == seen
    registry.cancel()
    await asyncio.wait([registry])
