"""States and verbs of runs through the SDK, on real processes, of which some are killed in the middle.

Tests are named after the rows of the parity list that they show.
"""

import asyncio
from collections.abc import Generator

import pytest
from tests.support.brokers import eventually
from tests.support.deployment import Site, connected, store_of, whole_site
from tests.support.patience import PATIENCE_S
from tests.support.private_rabbit import PrivateRabbit

from warren import Client, Run
from warren_schemas.events import RunState

CONFIG: dict[str, object] = {
    "name": "steered",
    "model": {"base": "warren/tiny"},
    "environments": [{"name": "guess"}],
    "algorithm": {"group_size": 4, "groups_per_step": 2},
    "sft": {"steps": 4, "episodes_per_step": 8},
    "limits": {"steps": 100_000},
}


@pytest.fixture(
    scope="module",
    params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.storm, pytest.mark.thorough])],
)
def deployment(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    private_rabbit: PrivateRabbit,
) -> Generator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with whole_site(folder, private_rabbit.url, store_of(request)) as site:
        yield site


@pytest.fixture
def site(deployment: Site) -> Site:
    """The same for all tests of a store, and whole again."""
    deployment.start_missing()
    return deployment


async def until(run: Run, *states: RunState, step: int = 0) -> None:
    async with asyncio.timeout(2 * PATIENCE_S):
        while run.view.state not in states or run.view.step < step:
            await asyncio.sleep(0.2)
            await run.refresh()
            assert not run.view.state.is_final or run.view.state in states, run.view.error


async def until_nothing_is_held(client: Client) -> None:
    """The worker hears that the model is closed after the state is stored."""

    async def is_nothing_held() -> bool:
        return not any(worker.models for worker in await client.workers())

    await eventually(is_nothing_held)


async def test_parity_row_03_04_11_65_a_run_pauses_resumes_and_finishes_while_gateways_die(
    site: Site,
) -> None:
    async with connected(site) as client:
        run = await client.train(CONFIG)
        await until(run, RunState.RUNNING, step=2)

        await run.pause()
        await site.kill("gateway")
        await site.start_gateway()
        await until(run, RunState.PAUSED)
        paused_at = run.view.step
        await until_nothing_is_held(client)

        await run.resume()
        await site.kill("gateway")
        await site.start_gateway()
        await until(run, RunState.RUNNING, step=paused_at + 2)

        await run.finish()
        await site.kill("gpu")
        site.start("gpu", *site.commands["gpu"])
        await until(run, RunState.COMPLETED)

    assert "its owner ended it early" in [entered.reason for entered in run.view.history]
    states = [entered.state for entered in run.view.history]
    assert states[:3] == [RunState.QUEUED, RunState.STARTING, RunState.RUNNING]
    paused = states.index(RunState.PAUSED)
    assert states[paused + 1] is RunState.QUEUED
    assert run.view.result and run.view.result.version >= 4
    assert states[-1] is RunState.COMPLETED
    times = [entered.at_s for entered in run.view.history]
    assert times == sorted(times)


async def test_parity_row_04_32_a_run_is_saved_cancelled_and_retried(site: Site) -> None:
    async with connected(site) as client:
        run = await client.train(CONFIG)
        await until(run, RunState.RUNNING, step=2)
        await run.cancel(save=True)
        await until(run, RunState.CANCELLED)
        saved = (await run.checkpoints()).checkpoints[-1]
        assert run.view.history[-1].reason == f"cancelled by its owner; saved as {saved.name}"

        successor, again = await run.retry(), await run.retry()
        assert successor.id == again.id != run.id
        assert successor.view.retry_of == run.id
        await until(successor, RunState.RUNNING, step=saved.step + 1)
        await successor.finish()
        await until(successor, RunState.COMPLETED)


@pytest.mark.storm
@pytest.mark.thorough
async def test_parity_row_04_limits_of_a_live_run_are_set_while_gateways_and_trainers_die(
    site: Site,
) -> None:
    async with connected(site) as client:
        run = await client.train(CONFIG)
        await until(run, RunState.RUNNING, step=2)

        await run.set(limits={"steps": 50_000, "in_flight": 8})
        await site.kill("gateway")
        await site.start_gateway()
        await run.refresh()
        config, step = run.view.config, run.view.step
        assert (run.view.n_steps, config and config.limits.in_flight) == (50_000, 8)
        await until(run, RunState.RUNNING, step=step + 2)

        last = run.view.step + 20
        await run.set(limits={"steps": last})
        await site.kill("gpu")
        site.start("gpu", *site.commands["gpu"])
        await until(run, RunState.COMPLETED)
        assert (run.view.step, run.view.n_steps) == (last, last)
