"""Recorded episodes evaluated by real processes: nobody samples, and a gateway that is killed in the middle changes no figure."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.deployment import Site, connected
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.processes import wait_until
from tests.system.test_scored_replays import rabbit, site

import warren

__all__ = ["rabbit", "site"]

pytestmark = [pytest.mark.storm, pytest.mark.thorough, pytest.mark.server, several_waits]

WEIGHED = ("env-worker", "--only", "--env", "tests.support.scored_environments:Weighed")
SAMPLED = {"episodes": 64, "samples": 4, "temperature": 1.0}


def config(evaluation: Mapping[str, object] | None = None, /, **worth: object) -> dict[str, object]:
    return {
        "model": {"base": "warren/tiny"},
        "environments": [{"name": "weighed", "config": worth}],
        "evaluation": dict(evaluation or {}),
        "limits": {"steps": 0},
    }


async def rewards(run: warren.Run) -> Counter[float]:
    """Of what the run recorded."""
    outcomes = [view.trajectory.outcome async for view in run.trajectories()]
    return Counter(outcome.reward for outcome in outcomes if outcome.status == "completed")


async def test_a_gateway_killed_in_the_middle_gives_the_results_of_a_calm_one(
    site: Site, tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    await site.start_gateway()
    site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
    site.start("env-1", *WEIGHED)
    async with connected(site) as client:
        live = await client.evaluate(config(SAMPLED))
        played = await live.result()
        await site.kill("gpu")
        recorded = warren.RecordedSource(run=live.run.id)
        kept = await (await client.evaluate(recorded=recorded)).result()

        scored = warren.RecordedSource(run=live.run.id, rewards="scored")
        first = await client.evaluate(config(worth=2.0), recorded=scored)
        calm = await first.result()
        await asyncio.to_thread(hold.touch)
        held = await client.evaluate(config(worth=2.0, hold=str(hold)), recorded=scored)
        await asyncio.to_thread(
            wait_until, hold.with_suffix(".reached").exists, site.processes["gateway"],
            deadline_s=PATIENCE_S, log_path=site.log("gateway"),
        )  # fmt: skip
        await site.kill("gateway")
        hold.unlink()
        await site.start_gateway()
    async with connected(site) as client:
        run = await client.run(held.run.id)
        await run.result()
        disturbed = await run.evaluation()
        assert await rewards(run) == await rewards(await client.run(first.run.id))

    assert kept.scores == played.scores
    assert {task.task for task in kept.tasks} == {task.task for task in played.tasks}
    assert (disturbed.scores, disturbed.tasks) == (calm.scores, calm.tasks)
    assert played.scores.reward_mean is not None
    assert played.scores.reward_mean > 0.0
    assert played.scores.reward_standard_error != 0.0
    assert calm.scores.reward_mean == pytest.approx(2.0 * played.scores.reward_mean)
