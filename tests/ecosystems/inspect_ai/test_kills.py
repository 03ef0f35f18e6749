"""Samples of Inspect whose env worker or process is killed in their middle, alone and in a run."""

import os
import signal
from pathlib import Path

import pytest
from tests.ecosystems.inspect_ai.serving import CLASS, TASKS, episode, installed, text
from tests.support.hosting import child_pids, hosting
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from tests.support.processes import children

from warren_broker.port import Broker
from warren_env_worker.host.protocol import Observed, Refused
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import TrainConfig
from warren_schemas.episode import Completed, FailureKind
from warren_schemas.operator_policy import TRUSTING

__all__ = ["installed"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server, several_waits]


def fork_servers(others: set[int]) -> list[int]:
    """Of the processes that began since then."""
    return [pid for child in {*child_pids()} - others for pid in children(child)]


@pytest.mark.shows("Inspect", "crash and replay")
async def test_a_killed_env_worker_costs_nothing() -> None:
    others = {*child_pids()}
    async with hosting(CLASS) as lost:
        player = episode(lost, "two_questions")
        await player.reset()
        assert text(await player.step("one")) == "and 0?"
        for pid in {*child_pids()} - others:
            os.kill(pid, signal.SIGKILL)
        async with hosting(CLASS) as other:
            ended = await player.moved_to(other).step("two")
    assert isinstance(ended, Observed), ended
    assert (ended.is_over, ended.reward) == (True, 4.0)


async def test_a_killed_process_of_inspect_is_a_failure_by_its_name() -> None:
    others = {*child_pids()}
    async with hosting(CLASS) as host:
        player = episode(host, "two_questions")
        await player.reset()
        (server,) = fork_servers(others)
        (sample,) = children(server)
        os.kill(sample, signal.SIGKILL)
        answer = await player.step("one")
    assert isinstance(answer, Refused), answer
    assert answer.kind is FailureKind.NOT_REPLAYABLE
    assert "the process of inspect_ai was lost" in answer.reason


async def env_worker(broker: Broker) -> None:
    settings = EnvWorkerSettings(environments=(f"inspect_ai={CLASS}",), only_named=True)
    await serve_env_worker(broker, settings, policy=TRUSTING)


@pytest.mark.shows("Inspect", "evaluation", "crash and replay", "retries")
async def test_a_run_goes_on_though_all_its_samples_are_killed(tmp_path: Path) -> None:
    site, others = (
        tiny_site(tmp_path / "home", lambda: in_process(tmp_path / "streams")),
        {*child_pids()},
    )
    async with site.running(site.gpu_worker, env_worker) as client:
        run = await client.train(config())
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


def config() -> TrainConfig:
    return TrainConfig.model_validate(
        {
            "name": "even",
            "model": {"base": "warren/tiny", "update": {"kind": "full"}},
            "environments": [
                {"name": "inspect_ai", "config": {"task": f"{TASKS}@even_or_odd"}},
            ],
            "sampling": {"max_tokens": 4},
            "algorithm": {"group_size": 4, "groups_per_step": 2, "max_staleness": 0},
            "evaluation": {"episodes": 4},
            "limits": {"steps": 2, "failed_groups": 1},
        }
    )
