"""A curriculum through real processes: levels rise with success, and a gateway that is killed goes on with the same choices."""

import asyncio
from collections.abc import Generator

import pytest
from tests.support.deployment import Site, connected
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

from warren import Client, Run
from warren_schemas.config import TrainConfig
from warren_schemas.events import StepCompleted

N_STEPS, GROUPS_PER_STEP = 10, 4
KILLED_AFTER = (2, 5, 6)


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, private_rabbit: PrivateRabbit
) -> Generator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), private_rabbit.url, store=None)
    try:
        asyncio.run(site.start_gateway())
        site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
        site.start("env", "env-worker", "--env", "tests.support.environments:Steady")
        yield site
    finally:
        site.stop()


def config() -> TrainConfig:
    curriculum = {"over": "levels", "n": 3, "half_life_groups": 2.0}
    return TrainConfig.model_validate(
        {
            "model": {"base": "warren/tiny"},
            "environments": [{"name": "steady", "curriculum": curriculum}],
            "algorithm": {
                "group_size": 4, "groups_per_step": GROUPS_PER_STEP, "max_staleness": 0,
            },
            "sampling": {"max_tokens": 2},
            "limits": {"steps": N_STEPS},
            "seed": 3,
        }
    )  # fmt: skip


async def levels(run: Run) -> dict[int, int]:
    """By the number of the draw."""
    found: dict[int, int] = {}
    async for view in run.trajectories():
        task = view.trajectory.spec.task
        assert task.level is not None
        found[task.index] = task.level
    return found


async def play(
    client: Client, site: Site, killed_after: tuple[int, ...]
) -> tuple[Run, list[float]]:
    """The run, and the chance of its middle level at each step."""
    run, chances = await client.train(config()), list[float]()
    async for event in run.events():
        if not isinstance(event.body, StepCompleted):
            continue
        chances.append(event.body.metrics["curriculum/probability/1"])
        if event.body.step in killed_after:
            await site.kill("gateway")
            await site.start_gateway()
    await run.result()
    return run, chances


@pytest.mark.storm
@pytest.mark.thorough
@several_waits
async def test_a_gateway_that_is_killed_goes_on_with_the_same_choices(site: Site) -> None:
    async with connected(site) as client:
        calm, chances = await play(client, site, ())
        rough, chances_of_rough = await play(client, site, KILLED_AFTER)
        found = await levels(calm)
        assert len(found) == N_STEPS * GROUPS_PER_STEP
        assert await levels(rough) == found
    assert chances_of_rough == chances
    assert chances[0] == pytest.approx(1 / 3) and chances[-1] > 0.6
    late = [level for number, level in found.items() if number >= 6 * GROUPS_PER_STEP]
    assert late.count(1) > len(late) / 2
