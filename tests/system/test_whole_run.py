"""A whole run through real processes on RabbitMQ, as its user starts it, while things break.

Gateway, GPU worker and env workers are processes of their own. The broker is killed in the middle
and comes back; an env worker joins late and takes a share; the run ends as if nothing had happened.
"""

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest
import yaml
from tests.support.brokers import eventually
from tests.support.deployment import Site, connected, store_of, whole_site
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit, running_rabbit

from warren import RunCancelled, RunFailed
from warren_broker.connect import open_broker
from warren_broker.topology import interact
from warren_schemas.events import StepCompleted

EXAMPLE = Path(__file__).parents[2] / "examples" / "guess.yaml"
N_STEPS = 24
N_SFT_STEPS = 60
"""Enough that some groups differ in their rewards, so that there is something to learn."""

pytestmark = pytest.mark.storm


@pytest.fixture(scope="module")
def rabbit() -> Generator[PrivateRabbit]:
    """A node of these tests' own: it is killed here, and others must not notice."""
    with running_rabbit() as node:
        yield node


@pytest.fixture(
    scope="module",
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)],
)
def deployment(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    rabbit: PrivateRabbit,
) -> Generator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with whole_site(folder, rabbit.url, store_of(request)) as site:
        yield site


@pytest.fixture
def site(deployment: Site) -> Site:
    """The same for all tests of a store, and whole again."""
    deployment.start_missing()
    return deployment


def small_config(steps: int = N_STEPS) -> dict[str, object]:
    """The example, in small: enough steps for things to break in between."""
    config = yaml.safe_load(EXAMPLE.read_text())
    config["sft"]["steps"] = N_SFT_STEPS
    config["evaluation"]["episodes"] = 32
    config["limits"] = {"steps": steps, "episode_s": 300}
    config["checkpoint"] = {"every_steps": 10}
    return config


@pytest.mark.thorough
@several_waits
async def test_a_run_ends_as_if_its_broker_had_not_been_killed(
    site: Site, rabbit: PrivateRabbit
) -> None:
    async with connected(site) as client:
        run = await client.train(small_config())
        steps: list[int] = []
        async for event in run.events():
            if not isinstance(event.body, StepCompleted) or event.body.phase != "training":
                continue
            steps.append(event.body.step)
            if event.body.step == 4:
                rabbit.kill()
                rabbit.spawn()
                await asyncio.to_thread(rabbit.wait_until_ready)
        result = await run.result()

    assert steps == list(range(1, N_STEPS + 1))
    assert result.reward_before is not None and result.reward_after is not None
    assert result.max_staleness_seen <= 3
    assert result.failed_episodes == 0


@pytest.mark.thorough
@several_waits
async def test_an_env_worker_that_joins_late_takes_a_share(site: Site) -> None:
    """And a run that is cancelled in the middle leaves every worker as it was."""
    async with connected(site) as client:
        run = await client.train(small_config(steps=100_000))
        async for event in run.events():
            if not isinstance(event.body, StepCompleted):
                continue
            if "env-3" not in site.processes:
                site.start("env-3", "env-worker")
            workers = await client.workers()
            shares = [w.n_done for w in workers if w.role == "environment"]
            if len(shares) == 3 and all(shares):
                break
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()

        async def all_are_heard() -> bool:
            roles = sorted(worker.role for worker in await client.workers())
            return roles == ["environment"] * 3 + ["sampler", "trainer"]

        await eventually(all_are_heard)

    assert all(process.poll() is None for process in site.processes.values())


@several_waits
async def test_a_run_survives_its_workers(site: Site) -> None:
    """Each worker is killed once, and started again, while the run goes on."""
    async with connected(site) as client:
        run = await client.train(small_config())
        victims = {2: "env-1", 7: "gpu", 12: "env-2"}
        async for event in run.events():
            body = event.body
            if not isinstance(body, StepCompleted) or body.phase != "training":
                continue
            if (victim := victims.pop(body.step, None)) is not None:
                site.processes[victim].kill()
                await asyncio.to_thread(site.processes[victim].wait)
                site.start(victim, *site.commands[victim])
        try:
            result = await run.result()
        except RunFailed as error:
            raise AssertionError(site.log("gateway").read_text()[-3000:]) from error

    assert result.updates > 0
    assert result.version == N_SFT_STEPS + result.updates


@pytest.mark.thorough
@several_waits
async def test_a_run_goes_on_after_its_env_workers_and_their_queue_were_gone(site: Site) -> None:
    """What nobody consumes from for an hour is forgotten by the broker, with the episodes in it."""
    config = small_config(steps=6)
    config["limits"] = {"steps": 6, "episode_s": 20}
    async with connected(site) as client, open_broker(site.broker, name="test") as broker:
        run = await client.train(config)
        steps: list[int] = []

        async def nobody_is_there() -> bool:
            return all(worker.role != "environment" for worker in await client.workers())

        async for event in run.events():
            if not isinstance(event.body, StepCompleted) or event.body.phase != "training":
                continue
            steps.append(event.body.step)
            if event.body.step == 2:
                for victim in (name for name in site.processes if name.startswith("env-")):
                    await site.kill(victim)
                await eventually(nobody_is_there)
                await broker.delete(interact("guess"))
                site.start("env-1", *site.commands["env-1"])
        result = await run.result()

    assert steps == list(range(1, 7))
    assert result.failed_episodes == 0
