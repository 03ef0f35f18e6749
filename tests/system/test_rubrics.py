"""Runs whose config says what an episode is worth, by real processes on RabbitMQ: whoever is killed while groups are compared.

Each trained episode's reward is computed once more by hand, from what was said in its group.
"""

import asyncio
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support.deployment import Site, connected, store_of
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit, running_rabbit
from tests.support.processes import wait_until
from tests.support.scored_environments import ranks, weight
from tests.system.test_scored_replays import config, weights_of

import warren
from warren_schemas.episode import Completed, EpisodeEnded

pytestmark = [pytest.mark.storm, pytest.mark.server, several_waits]

HERE = "tests.support.scored_environments"
GUESS = ("env-worker", "--only", "--env", f"{HERE}:Priced")
RUBRIC: list[dict[str, Any]] = [
    {"kind": "own", "weight": 2.0},
    {"kind": "function", "function": f"{HERE}:weight"},
    {"kind": "group_function", "function": f"{HERE}:held_rank", "weight": 0.5, "name": "rank"},
]


@pytest.fixture
def rabbit() -> Generator[PrivateRabbit]:
    with running_rabbit() as node:
        yield node


@pytest.fixture(params=["sqlite"])
def site(
    tmp_path: Path, rabbit: PrivateRabbit, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Generator[Site]:  # fmt: skip
    monkeypatch.setenv("RANK_HOLD", str(tmp_path / "hold"))
    (tmp_path / "policy.yaml").write_text(f'functions: ["{HERE}:*"]\nvariables: [RANK_HOLD]\n')
    monkeypatch.setenv("WARREN_OPERATOR_POLICY", str(tmp_path / "policy.yaml"))
    site = Site(tmp_path, rabbit.url, store_of(request))
    try:
        yield site
    finally:
        site.stop()


def rubric() -> dict[str, Any]:
    found = config({"rewards": RUBRIC})
    found["algorithm"] |= {"max_staleness": 0}
    return found


async def trained(run: warren.Run) -> dict[str, list[EpisodeEnded]]:
    """The episodes that were trained on, by group."""
    groups: dict[str, list[EpisodeEnded]] = defaultdict(list)
    async for view in run.trajectories():
        if view.fate == "trained" and view.trajectory.spec.purpose == "train":
            groups[view.trajectory.spec.group].append(view.trajectory)
    return groups


def require_rewarded_by_hand(group: list[EpisodeEnded]) -> None:
    assert len({item.spec.member for item in group}) == len(group) == 8
    said = [item.transcript.actions[-1] for item in group]
    for item, words, rank in zip(group, said, ranks(said), strict=True):
        assert isinstance(item.outcome, Completed)
        metrics = item.outcome.metrics
        own = metrics["reward/own"]
        assert metrics["reward/rank"] == rank
        assert metrics["reward/weight"] == weight(words, own)
        expected = 2.0 * own + weight(words, own) + 0.5 * rank
        assert item.outcome.reward == pytest.approx(expected)


@pytest.mark.thorough
@pytest.mark.parametrize("victims", [("env-1",), ("gateway",), ("gateway", "env-1")])
async def test_whoever_is_killed_while_a_group_is_compared_costs_nothing(
    site: Site, tmp_path: Path, victims: tuple[str, ...]
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    await site.start_gateway()
    site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
    site.start("env-1", *GUESS)
    async with connected(site) as client:
        run = await client.train(rubric())
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
        replay = await (await client.replay(run.id, config())).result()
    assert len(groups) == 12
    for group in groups.values():
        require_rewarded_by_hand(group)
    assert result.updates > 0
    assert not result.failures
    assert replay.updates == result.updates
    assert weights_of(replay) == weights_of(result)


@pytest.mark.thorough
async def test_rewards_of_groups_are_given_anew_where_a_run_is_scored_anew(site: Site) -> None:
    await site.start_gateway()
    site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
    site.start("env-1", *GUESS)
    async with connected(site) as client:
        plain = await client.train(rubric())
        before = await plain.result()
        same = await (await client.replay(plain.id, rubric(), score=True)).result()
        other = rubric()
        other["environments"][0]["rewards"] = RUBRIC[:2]
        without = await (await client.replay(plain.id, other, score=True)).result()
    assert weights_of(same) == weights_of(before) != weights_of(without)
    assert not same.failures
