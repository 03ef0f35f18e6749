"""Samples of Inspect whose env worker or process is killed in their middle, alone and in a run."""

import os
import signal
from pathlib import Path

import pytest
from tests.ecosystems.inspect_ai.serving import CLASS, TASKS, episode, installed
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.whole_run import WholeRun, once_one_waits
from tests.support.hosting import child_pids, hosting
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import children

from warren_env_worker.host.protocol import Observed

__all__ = ["installed"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server, several_waits]


def fork_servers(others: set[int]) -> list[int]:
    """Of the processes that began since then."""
    return [pid for child in {*child_pids()} - others for pid in children(child)]


@pytest.mark.shows("Inspect", "env worker killed")
async def test_a_killed_env_worker_costs_nothing(
    private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    of = spec("inspect_ai", environment_config={"task": f"{TASKS}@two_questions"})
    allowed = {"trusts_configs": True}  # the task is a file
    workers = TwoWorkers(private_rabbit, tmp_path, CLASS, allowed, turn=1, n_episodes=1)
    assert await workers.rewards(of, lambda item: ("one", "two")[item.turn]) == {4.0}


@pytest.mark.shows("Inspect", "retries")
async def test_a_killed_process_of_inspect_costs_nothing() -> None:
    others = {*child_pids()}
    async with hosting(CLASS) as host:
        player = episode(host, "two_questions")
        await player.reset()
        (server,) = fork_servers(others)
        (sample,) = children(server)
        os.kill(sample, signal.SIGKILL)
        await player.step("one")
        answer = await player.step("two")
    assert isinstance(answer, Observed), answer
    assert (answer.is_over, answer.reward) == (True, 4.0)


@pytest.mark.shows("Inspect", "evaluation", "foreign process killed", "retries")
async def test_processes_that_are_killed_in_a_run_cost_no_episode(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Samples of a group that are killed once the policy has spoken get the recorded answers in a new process, and go on."""
    waiting = tmp_path / "waiting"
    waiting.mkdir()
    of_splits = {"train": {"waits_in": str(waiting)}, "test": {}}
    config = {"task": f"{TASKS}@even_or_odd", "split_arguments": of_splits}
    run = WholeRun("inspect_ai", CLASS, config, evaluation_split="test")
    await run.play(tmp_path, once_one_waits(waiting))
    assert "the process of inspect_ai was lost; the host asks again" in capfd.readouterr().err
