"""An env worker that is killed with a task of AndroidWorld on its slot: another one plays it anew and goes on."""

from pathlib import Path

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.phones import config, name_in, opened, phones, told, typed
from tests.support.private_rabbit import PrivateRabbit

from warren_schemas.episode import Generate

CLASS = "warren_env_worker.environments.android_world.environment:AndroidWorld"


def policy(item: Generate) -> str:
    shown = [m.content for m in item.transcript.messages if m.role == "user"]
    goal = shown[0].partition("\n")[0].removeprefix("Goal: ")
    return (opened("Contacts"), typed(name_in(goal)), told("complete"))[item.turn]


@pytest.mark.server
@several_waits
async def test_a_killed_env_worker_costs_nothing(
    private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    async with phones(1) as (phone,):
        of = spec("android_world", environment_config=config([phone]), max_turns=20)
        allowed = {"services": [{"url": phone.url, "private": True}]}
        workers = TwoWorkers(private_rabbit, tmp_path, CLASS, allowed, turn=2, n_episodes=1)
        assert await workers.rewards(of, policy) == {1.0}
        tasks = [line for line in await phone.asked() if "/task/initialize" in line]
    assert len(tasks) == 2
