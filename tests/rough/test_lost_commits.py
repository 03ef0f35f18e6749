"""A power cut that took the newest commits of a SQLite store: workers and broker have gone on without it."""

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.rough.__main__ import config, nothing_is_held
from tests.support.deployment import Site, connected
from tests.support.patience import whole_deployment
from tests.support.private_rabbit import PrivateRabbit

from warren import Run, RunFailed
from warren_schemas.events import StepCompleted

CALM_S = 600.0


@pytest.mark.thorough
@pytest.mark.storm
@whole_deployment
@pytest.mark.parametrize("n_lost", [0, 4])
async def test_a_run_whose_store_lost_its_newest_steps_completes_or_says_why(
    tmp_path: Path, doomed_rabbit: PrivateRabbit, n_lost: int
) -> None:
    site = Site(tmp_path, doomed_rabbit.url, None)
    try:
        await site.start_all()
        async with connected(site) as client:
            run = await client.train(config(60))
            await until_step(run, 3)
            await site.kill("gateway")
            await asyncio.to_thread(copy, tmp_path, tmp_path / "old")
            await site.start_gateway()
            await until_step(run, 5 + n_lost)
            await site.kill("gateway")
            await asyncio.to_thread(copy, tmp_path / "old", tmp_path)
            await site.start_gateway()
            async with asyncio.timeout(CALM_S):
                try:
                    await run.result()
                except RunFailed as failure:
                    assert "has lost its newest changes" in str(failure)
            await nothing_is_held(client, doomed_rabbit)
    finally:
        await asyncio.to_thread(site.stop)


def copy(source: Path, to: Path) -> None:
    """The store's files, as they are."""
    to.mkdir(exist_ok=True)
    for path in to.glob("warren.db*"):
        path.unlink()
    for path in source.glob("warren.db*"):
        shutil.copy(path, to)


async def until_step(run: Run, step: int) -> None:
    async with asyncio.timeout(CALM_S):
        async for event in run.events():
            if isinstance(event.body, StepCompleted) and event.body.step >= step:
                return
