"""Workers are drained and stopped under a run that does not notice, while gateways die.

Two GPU workers and two env workers; the ones that the run is on are drained, its gateway is killed in the middle,
and then they are stopped.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.brokers import eventually
from tests.support.deployment import Site, connected
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit

from warren import Client, Run
from warren_schemas.events import RunState
from warren_schemas.http import WorkerView

pytestmark = [pytest.mark.storm, several_waits]

CONFIG: dict[str, object] = {
    "name": "moved",
    "model": {"base": "warren/tiny"},
    "environments": [{"name": "guess"}],
    "algorithm": {"group_size": 4, "groups_per_step": 2},
    "sft": {"steps": 4, "episodes_per_step": 8},
    "limits": {"steps": 100_000},
}


@pytest.fixture
async def site(tmp_path: Path, private_rabbit: PrivateRabbit) -> AsyncGenerator[Site]:
    site = Site(tmp_path, private_rabbit.url, None)
    try:
        await site.start_all()
        site.start("gpu-2", "gpu-worker", "--base-model", "warren/tiny")
        yield site
    finally:
        await asyncio.to_thread(site.stop)


async def workers_of(client: Client, pid: int) -> list[WorkerView]:
    return [worker for worker in await client.workers() if worker.pid == pid]


async def holder_of(client: Client) -> WorkerView:
    """The trainer that has the run's model, as the gateway has heard."""

    async def holders() -> list[WorkerView]:
        return [worker for worker in await client.workers() if worker.models]

    async def is_one() -> bool:
        return len(await holders()) == 1

    await eventually(is_one)
    return (await holders())[0]


async def until_step(run: Run, step: int) -> None:
    async with asyncio.timeout(2 * PATIENCE_S):
        while (await run.refresh()).step < step:
            assert not run.view.state.is_final, run.view.error
            await asyncio.sleep(0.2)


async def test_parity_row_06_drained_workers_are_stopped_and_no_run_notices(site: Site) -> None:
    async with connected(site) as client:

        async def are_all_there() -> bool:
            return sum(bool(worker.offers) for worker in await client.workers()) == 6

        await eventually(are_all_there)
        run = await client.train(CONFIG)
        await until_step(run, 2)
        holder = await holder_of(client)
        (gpu,) = [name for name, one in site.processes.items() if one.pid == holder.pid]
        leaving = [*await workers_of(client, holder.pid)]
        leaving += await workers_of(client, site.processes["env-1"].pid)
        assert len(leaving) == 3
        for worker in leaving:
            await client.access.drain_worker(worker.id)
        await site.kill("gateway")
        await site.start_gateway()

        async def is_empty() -> bool:
            ours = {worker.id: worker for worker in await client.workers()}
            now = [ours[one.id] for one in leaving if one.id in ours]
            assert all(not worker.offers for worker in now if worker.is_draining)
            return len(now) == 3 and all(w.is_draining and not w.in_flight for w in now)

        await eventually(is_empty)
        assert (await run.checkpoints()).checkpoints
        await until_step(run, run.view.step + 2)
        assert (await holder_of(client)).pid != holder.pid

        for name in (gpu, "env-1"):
            site.processes[name].terminate()
            assert await asyncio.to_thread(site.processes[name].wait, PATIENCE_S) == 0
        await until_step(run, run.view.step + 3)
        assert [entered.state for entered in run.view.history] == [
            RunState.QUEUED,
            RunState.STARTING,
            RunState.RUNNING,
        ]
        assert not run.view.result or not run.view.result.failed_episodes
        await run.cancel()
