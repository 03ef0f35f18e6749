"""Rewards that a user brings, in an evaluation with a table by category: an HTTP service and uploaded Python."""

from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from statistics import fmean

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from tests.unit.gateway.api.test_datasets import json_lines

import warren
from warren_schemas.episode import Completed, FailureKind

ROWS = [
    {"question": f"{n}{sign}2=", "answer": str(n), "category": category}
    for sign, category in (("+", "plus"), ("*", "times"))
    for n in range(5)
]
CODE = """
import socket

def is_open(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return False
    return True

def reward(response, gold, bonus=0.25):
    if is_open(open, "/etc/hostname") or is_open(socket.socket, socket.AF_INET):
        raise RuntimeError("it runs in no sandbox")
    return len(response) + bonus * (int(gold) % 2)
"""


async def judged(request: web.Request) -> web.Response:
    episodes = (await request.json())["episodes"]
    return web.json_response({"rewards": [float(len(e["response"]) % 2) for e in episodes]})


@several_waits
async def test_parity_row_26_35_own_rewards_stand_in_the_table_of_each_category(
    tmp_path: Path,
) -> None:
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))

    app = web.Application()
    app.router.add_post("/", judged)
    async with TestServer(app) as judge, site.running(site.sampler, site.env_worker) as client:
        dataset = await client.datasets.upload(json_lines(tmp_path / "sums.jsonl", ROWS), "sums")
        url = str(judge.make_url("/"))
        rewards = [{"kind": "service", "url": url, "weight": 10}, {"kind": "code", "code": CODE}]
        math = {"name": "math", "dataset": dataset.reference, "rewards": rewards}
        config = {
            "model": {"base": "warren/tiny"},
            "environments": [{**math, "evaluation_split": "train"}],
            "evaluation": {"episodes": len(ROWS), "temperature": 1.0},
            "sampling": {"max_tokens": 4},
            "limits": {"steps": 0},
        }
        evaluation = await client.evaluate(config)
        report = await evaluation.result()
        by_hand = await rewards_by_category(evaluation.run)
    assert {row.category: row.scores.n_episodes for row in report.categories} == {
        "plus": 5,
        "times": 5,
    }
    for row in report.categories:
        assert row.scores.reward_mean == fmean(by_hand[row.category])
    assert {"reward/service0", "reward/code1"} <= report.scores.metrics.keys()


async def rewards_by_category(run: warren.Run) -> dict[str | None, list[float]]:
    """From what was said."""
    found: dict[str | None, list[float]] = defaultdict(list)
    async for view in run.trajectories():
        ended = view.trajectory
        assert isinstance(ended.outcome, Completed), ended.outcome
        assert ended.spec.task.row is not None
        row, said = ended.spec.task.row.values, ended.transcript.actions[-1]
        reward = 10.0 * (len(said) % 2) + len(said) + 0.25 * (int(str(row["answer"])) % 2)
        assert ended.outcome.reward == reward
        found[str(row["category"])].append(reward)
    return found


@several_waits
async def test_a_model_of_the_same_deployment_is_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has learned nothing, so what it says may hold no score; but it was asked, and it did answer."""
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))

    async with site.running(site.sampler, site.env_worker) as client:
        monkeypatch.setenv("WARREN_SECRET_SELF", (tmp_path / "api-key").read_text().strip())
        judge = {
            "kind": "judge",
            "url": f"{site.url}/v1",
            "model": "warren/tiny",
            "key_variable": "WARREN_SECRET_SELF",
            "prompt": "{response}",
            "score": "yes_no",
            "max_tokens": 2,
            "tries": 1,
        }
        config = {
            "model": {"base": "warren/tiny"},
            "environments": [{"name": "echo", "rewards": [{"kind": "own"}, judge]}],
            "evaluation": {"episodes": 4, "temperature": 1.0},
            "sampling": {"max_tokens": 4},
            "limits": {"steps": 0, "episode_attempts": 1},
        }
        run = (await client.evaluate(config)).run
        with suppress(warren.RunFailed):
            await run.result()
        outcomes = [view.trajectory.outcome async for view in run.trajectories()]
    assert len(outcomes) == 4
    for outcome in outcomes:
        if isinstance(outcome, Completed):
            assert outcome.metrics["reward/judge1"] in (0.0, 1.0)
        else:
            assert outcome.kind is FailureKind.REWARD_FAILED
            assert "warren/tiny gave no score" in outcome.reason
