"""Runs that go wrong, through real samplers, environments and a real trainer: they say so."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits

import warren
from warren import Client, RunFailed
from warren_schemas.config import AlarmName, TrainConfig
from warren_schemas.events import WarningRaised
from warren_up.recipe import guess_config


def without_sft(**keys: dict[str, Any]) -> TrainConfig:
    """The demo's game for a policy of random weights, which knows nothing of it and hardly learns."""
    demo: dict[str, Any] = guess_config(steps=9).model_dump()
    config: dict[str, Any] = {**demo, "sft": None, "evaluation": None}
    config["algorithm"] |= {"group_size": 4, "groups_per_step": 2, "max_staleness": 1}
    config["optimizer"] |= {"learning_rate": 1e-7}
    config["limits"] |= {"stop_at_reward": None, **keys.get("limits", {})}
    config["environments"] = [{"name": "guess", **keys.get("environment", {})}]
    return TrainConfig.model_validate(config)


async def raised(client: Client, config: TrainConfig) -> tuple[set[AlarmName], warren.Run]:
    run = await client.train(config)
    bodies = [event.body async for event in run.events()]
    return {body.alarm for body in bodies if isinstance(body, WarningRaised) and body.alarm}, run


@several_waits
async def test_runs_that_deserve_it_raise_alarms_and_end_by_them(tmp_path: Path) -> None:
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))
    graded_alike = {"min_reward": 0.0, "max_reward": 0.0}
    ends = {"stop_on": ["reward_constant"], "steps": 100}
    async with site.running(site.gpu_worker, site.env_worker) as client:
        untrained, _ = await raised(client, without_sft())
        alike, run = await raised(client, without_sft(environment=graded_alike, limits=ends))
        with pytest.raises(RunFailed, match=r"limits\.stop_on has reward_constant"):
            await run.result()

    assert AlarmName.FORMAT in untrained
    assert alike >= {AlarmName.REWARD_CONSTANT, AlarmName.ZERO_VARIANCE}
