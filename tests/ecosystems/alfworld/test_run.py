"""An evaluation on ALFWorld, by type of task."""

from pathlib import Path

import pytest
from tests.ecosystems.alfworld.installed import CLASS, home
from tests.ecosystems.whole_run import lengthen
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits

from warren_broker.port import Broker
from warren_env_worker.environments.alfworld.environment import TASK_TYPES
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.operator_policy import TRUSTING

__all__ = ["home"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
CONFIG = {
    "model": {"base": "warren/tiny"},
    "environments": [
        {
            "name": "alfworld",
            "config": {"games": len(TASK_TYPES)},
            "evaluation_split": "valid_unseen",
            "max_turns": 2,
        }
    ],
    "sampling": {"max_tokens": 4},
    "evaluation": {"episodes": len(TASK_TYPES)},
    "limits": {"steps": 0},
}


async def env_worker(broker: Broker) -> None:
    settings = EnvWorkerSettings(environments=(f"alfworld={CLASS}",), only_named=True)
    await serve_env_worker(broker, settings, policy=TRUSTING)


@pytest.mark.shows("ALFWorld", "evaluation")
@several_waits
async def test_an_evaluation_has_a_row_for_each_type_of_task(tmp_path: Path) -> None:
    site = tiny_site(tmp_path / "site", lambda: in_process(tmp_path / "streams"))
    lengthen(Path(site.gpu.base_models["warren/tiny"]))
    async with site.running(site.gpu_worker, env_worker) as client:
        report = await (await client.evaluate(CONFIG)).result()
    by_type = {row.category: row.scores.n_episodes for row in report.categories}
    assert by_type == dict.fromkeys(TASK_TYPES, 1)
    assert report.scores.n_failed == 0
    assert report.scores.metrics["won"].mean == 0.0
