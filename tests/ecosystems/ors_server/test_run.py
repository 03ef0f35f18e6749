"""A run trained on a `warren ors-server` is a run on the same environment, hosted directly."""

from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.ors_server.serving import ROOT, ors_server
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits

from warren.configs import read_config
from warren.environment import Context
from warren_env_worker.environments.arithmetic import Arithmetic
from warren_schemas.config import TrainConfig
from warren_schemas.episode import Completed
from warren_schemas.http import TrajectoryView

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
Row = tuple[int, str, str, float]
EXAMPLE = ROOT / "examples" / "arithmetic_tiny.yaml"


def row(view: TrajectoryView) -> Row:
    """Number and question of the task, the answer and its reward."""
    transcript, outcome = view.trajectory.transcript, view.trajectory.outcome
    question, answer = (message.content for message in transcript.messages)
    assert isinstance(outcome, Completed)
    assert transcript.task_number is not None
    return transcript.task_number, question, answer, outcome.reward


@pytest.mark.shows("ORS server", "tasks", "evaluation")
@several_waits
async def test_a_run_on_served_tasks_is_a_run_on_the_tasks(tmp_path: Path) -> None:
    """In the order of the data, each task with the reward that it has where it is hosted."""
    config: Any = read_config(EXAMPLE).model_dump()
    config["algorithm"] |= {"groups_per_step": 4, "group_size": 4, "max_staleness": 0}
    config["sft"] = None
    config["evaluation"] |= {"episodes": 4}
    config["limits"] |= {"steps": 2}
    (tmp_path / "home").mkdir()
    with ors_server(tmp_path, arithmetic={"config": {"max_answer": 9}}) as server:
        site = tiny_site(tmp_path / "home", lambda: in_process(tmp_path / "streams"))
        async with site.running(site.gpu_worker, site.env_worker) as client:
            seen = list[list[Row]]()
            environments: list[dict[str, Any]] = [
                {"name": "arithmetic", "config": {"max_answer": 9}},
                {"name": "ors", "config": {"url": server.url, "environment": "arithmetic"}},
            ]
            for environment in environments:
                environment["splits"] = {"train": {"shuffle": False}}
                config["environments"] = [environment]
                run = await client.train(TrainConfig.model_validate(config))
                await run.result()
                played = [view async for view in run.trajectories()]
                seen.append([row(view) for view in played if view.fate == "trained"])
    direct, served = seen
    assert {row[:2] for row in served} == {row[:2] for row in direct}
    assert len({row[0] for row in served}) == 8
    for number, question, answer, reward in [*direct, *served]:
        hosted = Arithmetic(max_answer=9)
        problem = hosted.tasks("train")[number]
        assert hosted.reset(problem, Context.derive(1)) == question
        assert hosted.step(answer).reward == reward
