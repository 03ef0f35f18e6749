"""A base model that nobody holds is loaded by an idle worker that may, and its own one again when a run wants that.

One GPU worker and one env worker. While it loads it is killed once, and another one like it is started.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.deployment import Site, connected
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.system.service.scene import job, until

from warren import Client, Run

pytestmark = [pytest.mark.storm, pytest.mark.thorough, several_waits]

OTHER = "warren/tiny-lora"


@pytest.fixture
async def site(tmp_path: Path, private_rabbit: PrivateRabbit) -> AsyncGenerator[Site]:
    site = Site(tmp_path, private_rabbit.url, None)
    try:
        await site.start_gateway()
        start_gpu_worker(site)
        site.start("env-1", "env-worker", "--env", "tests.support.chance:Chance")
        yield site
    finally:
        await asyncio.to_thread(site.stop)


def start_gpu_worker(site: Site) -> None:
    site.start("gpu", "gpu-worker", "--base-model", "warren/tiny", "--may-load", OTHER)


async def until_loading(client: Client, run: Run) -> None:
    """The run says where, and so does the list of workers."""

    async def is_told() -> bool:
        view = await run.refresh()
        reason = view.queue.reason if view.queue else ""
        loaders = {worker.id for worker in await client.workers() if OTHER in worker.loading}
        assert not view.state.is_final, view.error
        return reason.removeprefix(f"loading {OTHER} on ") in loaders

    await until(is_told)


async def test_a_base_model_that_nobody_holds_is_loaded_and_given_up_again(site: Site) -> None:
    async with connected(site) as client:

        async def is_ready() -> bool:
            return sum(bool(worker.offers) for worker in await client.workers()) == 3

        await until(is_ready)
        other = await client.train(job("other", model={"base": OTHER}))
        await until_loading(client, other)
        await site.kill("gpu")
        start_gpu_worker(site)
        async with asyncio.timeout(2 * PATIENCE_S):
            await other.result()
        own = await client.train(job("own"))
        async with asyncio.timeout(2 * PATIENCE_S):
            await own.result()
        (trainer,) = [worker for worker in await client.workers() if worker.role == "trainer"]
        assert (trainer.offers, trainer.may_load) == (("warren/tiny",), (OTHER,))
