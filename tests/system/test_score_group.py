"""Runs whose environment compares the groups itself (`score_group`), by real processes on RabbitMQ: whoever is killed meanwhile.

Each trained episode's reward is computed once more by hand, from what was said in its group.
"""

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support.deployment import Site, connected, store_of
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit, running_rabbit
from tests.support.processes import wait_until
from tests.support.scored_environments import ranks
from tests.system.test_rubrics import trained
from tests.system.test_scored_replays import config, weights_of

from warren_schemas.episode import Completed, EpisodeEnded

pytestmark = [pytest.mark.storm, pytest.mark.server, several_waits]

CONTEST = ("env-worker", "--only", "--env", "tests.support.comparing_environments:Contest")


@pytest.fixture
def rabbit() -> Generator[PrivateRabbit]:
    with running_rabbit() as node:
        yield node


@pytest.fixture(params=["sqlite"])
def site(tmp_path: Path, rabbit: PrivateRabbit, request: pytest.FixtureRequest) -> Generator[Site]:
    site = Site(tmp_path, rabbit.url, store_of(request))
    try:
        yield site
    finally:
        site.stop()


def contest(weight: float | None = None, **keys: object) -> dict[str, Any]:
    """With what the environment gives `weight` times, if that is given."""
    found = config({"rewards": [] if weight is None else [{"kind": "own", "weight": weight}]})
    found["environments"][0] |= {"name": "contest", "config": keys}
    found["algorithm"] |= {"max_staleness": 0}
    return found


def require_rewarded_by_hand(group: list[EpisodeEnded]) -> None:
    assert len({item.spec.member for item in group}) == len(group) == 8
    said = [item.transcript.actions[-1] for item in group]
    for item, rank in zip(group, ranks(said), strict=True):
        assert isinstance(item.outcome, Completed)
        guessed = -0.5 if item.outcome.metrics["unreadable"] else item.outcome.metrics["exact"]
        assert item.outcome.metrics["rank"] == rank
        assert item.outcome.reward == pytest.approx(guessed + rank)


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(("env-1",), marks=pytest.mark.thorough),
        pytest.param(("gateway",), marks=pytest.mark.thorough),
        ("gateway", "env-1"),
    ],
)
async def test_whoever_is_killed_while_a_group_is_compared_costs_nothing(
    site: Site, tmp_path: Path, victims: tuple[str, ...]
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    await site.start_gateway()
    site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
    site.start("env-1", *CONTEST)
    async with connected(site) as client:
        run = await client.train(contest(hold=str(hold)))
        await asyncio.to_thread(
            wait_until, hold.with_suffix(".reached").exists, site.processes["gateway"], deadline_s=PATIENCE_S,
            log_path=site.log("gateway"),
        )  # fmt: skip
        for name in victims:
            await site.kill(name)
        hold.unlink()
        if "gateway" in victims:
            await site.start_gateway()
        site.start_missing()
    async with connected(site) as client:
        handle = await client.run(run.id)
        result = await handle.result()
        groups = await trained(handle)
        await site.kill("env-1")  # a replay needs none
        replay = await (await client.replay(run.id, contest())).result()
    assert len(groups) == 12
    for group in groups.values():
        require_rewarded_by_hand(group)
    assert result.updates > 0
    assert not result.failures
    assert replay.updates == result.updates
    assert weights_of(replay) == weights_of(result)


@pytest.mark.thorough
async def test_groups_are_compared_anew_where_a_run_is_scored_anew(site: Site) -> None:
    await site.start_gateway()
    site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
    site.start("env-1", *CONTEST)
    async with connected(site) as client:
        plain = await client.train(contest())
        before = await plain.result()
        same = await (await client.replay(plain.id, contest(1.0), score=True)).result()
        worth = contest(worth=-3.0)
        other = await (await client.replay(plain.id, worth, score=True)).result()
    assert weights_of(same) == weights_of(before) != weights_of(other)
    assert not same.failures
