"""A hostile tenant, where all programs serve in this process, on the in-process broker.

Their children are real. The same by the command: `test_deployment`.
"""

from functools import partial
from pathlib import Path

import pytest
from tests.support.hosting import child_pids
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from tests.trust.attack import KEY, SECRET, base
from tests.trust.scene import attack_by_sdk, open_scene, open_services
from tests.trust.table import HOSTED

from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import TrainConfig
from warren_schemas.operator_policy import OperatorPolicy

pytestmark = several_waits

PASSWORD = "of-the-broker-0123456789"


async def test_no_field_of_a_config_reaches_what_is_not_its_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.setenv("WARREN_BROKER_URL", f"amqp://warren:{PASSWORD}@rabbit")
    site = tiny_site(tmp_path / "site", partial(in_process, tmp_path / "streams"))
    async with open_services(tmp_path) as services:
        policy = OperatorPolicy.model_validate(services.policy)

        async def env_worker(broker: Broker) -> None:
            await serve_env_worker(broker, EnvWorkerSettings(environments=HOSTED), policy=policy)

        async with (
            site.running(site.gpu_worker, env_worker) as victim,
            open_scene(
                victim,
                services,
                url=site.url,
                home=site.home,
                pids=child_pids,
                hidden=(SECRET, PASSWORD),
            ) as scene,
        ):
            await attack_by_sdk(scene)


async def test_the_least_config_itself_is_no_attack() -> None:
    assert TrainConfig.model_validate(base())
