"""Env workers and servers of NeMo Gym that are killed while many episodes and a run are at it: no group is lost."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.nemo_gym.serving import CLASS, call, path, server
from tests.ecosystems.real_server import RealServer
from tests.support.interacting import endings, sampling, spec, start, start_all
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import signal_group, spawn
from tests.support.question_files import write_lines
from tests.system.test_env_worker import COMMAND, ROOT, heard_from

from warren_broker.connect import open_broker
from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import TrainConfig
from warren_schemas.episode import Completed, Generate
from warren_schemas.ids import new_id, new_run_id
from warren_schemas.operator_policy import TRUSTING

__all__ = ["server"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
COUNTER = "example_session_state_mgmt"
N_EPISODES = 40


@pytest.mark.shows("NeMo Gym", "crash and replay")
async def test_a_killed_env_worker_costs_nothing(
    server: RealServer, private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    """Its episodes move to another one, which may ask the server by its operator's policy."""
    url = f"{server.url}counter/"
    listed = {
        "services": [{"url": url, "private": True}],
        "data_root": str(Path(path(COUNTER)).parent),
    }
    policy_path = tmp_path / "policy.yaml"
    policy_path.write_text(json.dumps(listed))
    command = [*COMMAND, "--broker", private_rabbit.url, "--only", "--env", CLASS]
    command += ["--operator-policy", str(policy_path)]
    workers = [spawn(command, log_path=tmp_path / "first", folder=ROOT)]
    run = new_run_id()
    config: dict[str, Any] = {"url": url, "path": "example.jsonl"}
    of = spec("nemo_gym", environment_config=config, max_turns=9)
    starts = [start(new_id("ep"), of, run=run) for _ in range(N_EPISODES)]
    try:
        async with open_broker(private_rabbit.url, name="test") as broker:
            lost = await heard_from(broker, workers[0])

            def policy(item: Generate) -> str:
                if item.home == lost and item.turn == 3:
                    signal_group(workers[0], signal.SIGKILL)
                shown = [m.content for m in item.transcript.messages if m.role == "tool"]
                asked = item.transcript.messages[1].content
                return "Done." if len(shown) == 4 else _step(asked, len(shown))

            async with sampling(broker, policy):
                await start_all(broker, starts)  # the first takes them: there is no other yet
                workers.append(spawn(command, log_path=tmp_path / "second", folder=ROOT))
                heir = await heard_from(broker, workers[1])
                ended = await endings(broker, len(starts), run=run)
    finally:
        for worker in workers:
            signal_group(worker, signal.SIGKILL)
            worker.wait()
    outcomes = [item.outcome for item in ended]
    assert all(isinstance(o, Completed) and o.reward == 1.0 for o in outcomes), outcomes
    assert heir in {item.worker for item in ended}
    assert any(item.spec.n_recoveries_left == 2 for item in ended)


@pytest.mark.shows("NeMo Gym", "evaluation", "crash and replay")
@several_waits
async def test_a_server_that_is_killed_in_a_run_costs_no_group(
    tmp_path: Path, server: RealServer
) -> None:
    rows = write_lines(tmp_path / "rows.jsonl", {"responses_create_params": {"input": "Speak."}})
    site = tiny_site(tmp_path / "home", lambda: in_process(tmp_path / "streams"))
    async with site.running(site.gpu_worker, _env_worker) as client:
        run = await client.train(_config(server, rows))
        server.kill()  # whichever episodes are there wait for it
        await asyncio.to_thread(server.start)
        await run.result()
        played = [view async for view in run.trajectories()]
    trained = [view for view in played if view.fate == "trained"]
    assert {type(view.trajectory.outcome) for view in played} == {Completed}
    assert len(trained) == 2 * 8


def _step(asked: str, number: int) -> str:
    """What the words of a row of the counter ask for: add 1 then add 2 then get the count."""
    words = asked.split(" then ")
    if number >= len(words):
        return call("get_counter_value")
    added = words[number].removeprefix("add ")
    return (
        call("increment_counter", count=int(added))
        if added.isdigit()
        else call("get_counter_value")
    )


async def _env_worker(broker: Broker) -> None:
    settings = EnvWorkerSettings(environments=(f"nemo_gym={CLASS}",), only_named=True)
    await serve_env_worker(broker, settings, policy=TRUSTING)


def _config(server: RealServer, rows: Path) -> TrainConfig:
    of = {"url": f"{server.url}clock/", "path": str(rows), "patience_s": 120.0}
    return TrainConfig.model_validate(
        {
            "name": "words",
            "model": {"base": "warren/tiny", "update": {"kind": "full"}},
            "environments": [{"name": "nemo_gym", "config": of}],
            "sampling": {"max_tokens": 4},
            "algorithm": {"group_size": 4, "groups_per_step": 2, "max_staleness": 0},
            "evaluation": {"episodes": 2},
            "limits": {"steps": 2, "episode_attempts": 1, "failed_groups": 1},
        }
    )
