"""An evaluation of a policy that sees, on two phones, one of which is killed."""

import json
import shutil
from pathlib import Path

import pytest
from tests.support.brokers import eventually
from tests.support.one_process import Site, in_process
from tests.support.patience import several_waits
from tests.support.phones import config, phones
from tests.support.sampler_stage import settings_of
from tests.support.seeing_models import seeing_model

from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.operator_policy import TRUSTING

__all__ = ["seeing_model"]
CLASS = "warren_env_worker.environments.android_world.environment:AndroidWorld"
CONTEXT_LENGTH = 16_384
TYPES = ("ContactsAddContact", "SystemWifiTurnOff")


async def env_worker(broker: Broker) -> None:
    settings = EnvWorkerSettings(environments=(f"android_world={CLASS}",), only_named=True)
    await serve_env_worker(broker, settings, policy=TRUSTING)


def lengthened(model: str, folder: Path) -> str:
    """How to act takes more than its 512 characters."""
    shutil.copytree(model, folder)
    told = json.loads((folder / "config.json").read_text())
    told["text_config"]["max_position_embeddings"] = CONTEXT_LENGTH
    (folder / "config.json").write_text(json.dumps(told))
    return str(folder)


@pytest.mark.slow
@several_waits
async def test_an_evaluation_has_a_row_for_each_type_though_a_phone_is_killed(
    tmp_path: Path, seeing_model: str
) -> None:
    gpu = settings_of({"warren/tiny": lengthened(seeing_model, tmp_path / "model")}, tmp_path)
    site = Site(
        tmp_path / "home",
        lambda: in_process(tmp_path / "streams"),
        gpu.model_copy(update={"engine": "transformers"}),
    )

    async with phones(2) as servers, site.running(site.sampler, env_worker) as client:
        of = config(servers, task_types=list(TYPES), patience_s=60.0)
        evaluation = await client.evaluate(
            {
                "model": {"base": "warren/tiny"},
                "environments": [{"name": "android_world", "config": of, "max_turns": 2}],
                "sampling": {"max_tokens": 4},
                "evaluation": {"episodes": 4},
                "limits": {"steps": 0},
            }
        )

        async def plays() -> bool:
            return any("/task/initialize" in line for line in await servers[0].asked())

        await eventually(plays)
        await servers[0].kill()
        report = await evaluation.result()
    assert {row.category: row.scores.n_episodes for row in report.categories} == dict.fromkeys(
        TYPES, 2
    )
    assert (report.scores.n_failed, report.scores.reward_mean) == (0, 0.0)
    assert report.scores.metrics["invalid_actions"].mean == 2.0
