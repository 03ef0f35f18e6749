"""Trials of Harbor whose env worker or process is killed in their middle, alone and in a run."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.harbor.serving import CLASS, episode, installed, shell, text
from tests.ecosystems.harbor.task_folders import write_task
from tests.support.hosting import child_pids, hosting
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from tests.support.processes import children, until_dead

from warren_broker.port import Broker
from warren_env_worker.host.protocol import Observed, Refused
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import TrainConfig
from warren_schemas.episode import Completed, FailureKind
from warren_schemas.operator_policy import TRUSTING

__all__ = ["installed"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server, several_waits]
EVEN = """\
#!/bin/bash
said=$(cat /app/answer.txt); echo "${#said}" > /logs/verifier/length
case "$said" in e*) echo 1 ;; *) echo 0 ;; esac > /logs/verifier/reward.txt
"""


def fork_servers(others: set[int]) -> list[int]:
    """Of the processes that began since then."""
    return [pid for child in {*child_pids()} - others for pid in children(child)]


@pytest.mark.shows("Harbor", "crash and replay")
async def test_a_killed_env_worker_costs_nothing(tmp_path: Path) -> None:
    """Its commands are run again, in another box."""
    folder, others = write_task(tmp_path), {*child_pids()}
    async with hosting(CLASS) as lost:
        player = episode(lost, folder)
        await player.reset()
        assert text(await player.step(shell("echo 7 > answer.txt; ls"))) == (
            "answer.txt\nnumbers.txt\n"
        )
        servers = fork_servers(others)
        for pid in {*child_pids()} - others:
            os.kill(pid, signal.SIGKILL)
        for pid in servers:
            await until_dead(pid)
        async with hosting(CLASS) as other:
            ended = await player.moved_to(other).step("Done.")
    assert isinstance(ended, Observed), ended
    assert (ended.is_over, ended.reward) == (True, 1.0)


async def test_what_shows_something_else_when_it_is_run_again_fails(tmp_path: Path) -> None:
    async with hosting(CLASS) as lost:
        player = episode(lost, write_task(tmp_path))
        await player.reset()
        await player.step(shell("date +%N"))
        async with hosting(CLASS) as other:
            answer = await player.moved_to(other).step("Done.")
    assert isinstance(answer, Refused), answer
    assert answer.kind is FailureKind.NOT_REPLAYABLE


async def test_a_killed_process_of_harbor_is_a_failure_by_its_name(tmp_path: Path) -> None:
    """And nothing of its box is left."""
    folder, others = write_task(tmp_path), {*child_pids()}
    async with hosting(CLASS) as host:
        player = episode(host, folder)
        await player.reset()
        (server,) = fork_servers(others)
        (trial,) = children(server)
        box = [pid for child in children(trial) for pid in (child, *children(child))]
        assert box
        os.kill(trial, signal.SIGKILL)
        answer = await player.step(shell("ls"))
        for pid in box:
            await until_dead(pid)
    assert isinstance(answer, Refused), answer
    assert answer.kind is FailureKind.NOT_REPLAYABLE
    assert "the process of harbor was lost" in answer.reason


async def env_worker(broker: Broker) -> None:
    settings = EnvWorkerSettings(environments=(f"harbor={CLASS}",), only_named=True)
    await serve_env_worker(broker, settings, policy=TRUSTING)


def config(folder: Path) -> TrainConfig:
    of: dict[str, Any] = {"path": str(folder), "agent": "one_word:OneWord"}
    return TrainConfig.model_validate(
        {
            "name": "even",
            "model": {"base": "warren/tiny", "update": {"kind": "full"}},
            "environments": [{"name": "harbor", "config": of, "max_in_flight": 8}],
            "sampling": {"max_tokens": 4},
            "algorithm": {"group_size": 4, "groups_per_step": 2, "max_staleness": 0},
            "evaluation": {"episodes": 2},
            "limits": {"steps": 2, "failed_groups": 1},
        }
    )


@pytest.mark.shows("Harbor", "evaluation", "crash and replay", "retries")
async def test_a_run_goes_on_though_all_its_trials_are_killed(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "tasks", instruction="even or odd: 4", tests=EVEN)
    others = {*child_pids()}
    site = tiny_site(tmp_path / "home", lambda: in_process(tmp_path / "streams"))
    async with site.running(site.gpu_worker, env_worker) as client:
        run = await client.train(config(folder))
        async for event in run.events():
            if event.body.kind == "step_completed":
                break
        for pid in fork_servers(others):
            os.kill(pid, signal.SIGKILL)
        result = await run.result()
        played = [view async for view in run.trajectories()]
    assert result.reward_before is not None
    trained = [view for view in played if view.fate == "trained"]
    assert len(trained) == 2 * 8
    assert {type(view.trajectory.outcome) for view in trained} == {Completed}
