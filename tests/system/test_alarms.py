"""Runs that go wrong, through real samplers, environments and a real trainer: they say so."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.built_models import own_model
from tests.support.one_process import Program, Site, in_process, tiny_site
from tests.support.patience import several_waits
from tests.support.processes import forks_running

from warren import Client, Run, RunFailed
from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import AlarmName, LoraUpdate, ModelConfig, TrainConfig
from warren_schemas.events import StepCompleted, WarningRaised
from warren_schemas.operator_policy import TRUSTING
from warren_up.recipe import guess_config

pytestmark = several_waits

Keys = dict[str, dict[str, Any]]


def untrained(**keys: dict[str, Any]) -> TrainConfig:
    """Few small steps of a policy of random weights, which knows nothing of its task."""
    demo: dict[str, Any] = guess_config(steps=9).model_dump()
    config: dict[str, Any] = {**demo, "sft": None, "evaluation": None}
    config["algorithm"] |= {"group_size": 4, "groups_per_step": 2, "max_staleness": 1}
    config["algorithm"] |= {"entropy_coefficient": 0.0, **keys.get("algorithm", {})}
    config["optimizer"] |= {"learning_rate": 1e-7, "warmup_steps": 0, **keys.get("optimizer", {})}
    config["sampling"] |= keys.get("sampling", {})
    config["limits"] |= {"stop_at_reward": None, **keys.get("limits", {})}
    config["environments"] = [{"name": "guess", **keys.get("environment", {})}]
    return TrainConfig.model_validate(config)


def by_chance(**keys: Any) -> dict[str, Any]:
    return {"name": "chance", "config": keys.pop("config", {}), **keys}


def ending(name: AlarmName, **limits: Any) -> dict[str, Any]:
    """A run that ends by this alarm, or not for long."""
    return {"steps": 100, "stop_on": [name], **limits}


async def env_worker(broker: Broker) -> None:
    environments = ("tests.support.chance:Chance",)
    await serve_env_worker(broker, EnvWorkerSettings(environments=environments), policy=TRUSTING)


async def ended_by(client: Client, config: TrainConfig) -> set[AlarmName]:
    """What was told of a run that `limits.stop_on` ended."""
    run = await client.train(config)
    bodies = [event.body async for event in run.events()]
    alarms = {body.alarm for body in bodies if isinstance(body, WarningRaised) and body.alarm}
    [name] = config.limits.stop_on
    with pytest.raises(RunFailed, match=rf"limits\.stop_on has {name}"):
        await run.result()
    return alarms


def site_in(folder: Path) -> Site:
    return tiny_site(folder, lambda: in_process(folder / "streams"))


def gpu_worker(site: Site, **changes: Any) -> Program:
    return replace(site, gpu=site.gpu.model_copy(update=changes)).gpu_worker


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Client]:
    site = site_in(tmp_path_factory.mktemp("site"))
    async with site.running(site.gpu_worker, env_worker) as client:
        yield client


DESERVED: dict[AlarmName, Keys] = {
    AlarmName.ENTROPY_HIGH: {"environment": by_chance(), "sampling": {"temperature": 3.0}},
    AlarmName.ENTROPY_LOW: {"environment": by_chance(), "sampling": {"temperature": 0.001}},
    AlarmName.SINGLE_CANDIDATE: {"environment": by_chance(), "sampling": {"top_p": 0.001}},
    AlarmName.REWARD_CONSTANT: {"environment": {"min_reward": 0.0, "max_reward": 0.0}},
    AlarmName.ZERO_VARIANCE: {"environment": {"min_reward": 0.0, "max_reward": 0.0}},
    AlarmName.NOBODY_FINISHES: {"environment": by_chance(config={"n_turns": 100}, max_turns=2)},
    AlarmName.FORMAT: {},
    AlarmName.EXPLODING: {
        "environment": by_chance(),
        "optimizer": {"learning_rate": 1.0},
        "algorithm": {"max_staleness": 3},
    },
    AlarmName.ENVIRONMENT_FAILS: {"environment": by_chance(config={"failing": 0.5})},
}
"""What a run has to change to deserve the alarm."""


def test_of_each_alarm_there_is_such_a_run() -> None:
    others = {AlarmName.DISAGREEMENT, AlarmName.GATE_CLOSED}  # those below
    assert set(DESERVED) | others == set(AlarmName)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", DESERVED)
async def test_a_run_that_deserves_it_raises_the_alarm_and_ends_by_it(
    client: Client, name: AlarmName
) -> None:
    keys = DESERVED[name]
    assert name in await ended_by(client, untrained(**{**keys, "limits": ending(name)}))


@pytest.mark.thorough
@pytest.mark.storm
async def test_deployments_that_deserve_it_raise_the_alarm(tmp_path: Path) -> None:
    """The trainer of one stands still for a minute; the other one works meanwhile."""
    folders = [tmp_path / name for name in ("waiting", "disagreeing")]
    for folder in folders:
        folder.mkdir()
    stands_still = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(batches_wait_for_the_trainer(folders[0], stands_still))
        await stands_still.wait()
        await sampler_and_trainer_disagree(folders[1])


async def sampler_and_trainer_disagree(folder: Path) -> None:
    """Their base models have one name and kind, such as two revisions: adapters fit, and logprobs don't."""
    name, site = AlarmName.DISAGREEMENT, site_in(folder)
    base = str(own_model("warren/tiny-lora", folder))
    other = gpu_worker(site, roles=frozenset({"sampler"}), base_models={"warren/tiny": base})
    keys: Keys = {"environment": by_chance(), "algorithm": {"max_staleness": 0}}
    config = untrained(**keys, limits=ending(name))
    config = config.model_copy(
        update={"model": ModelConfig(base="warren/tiny", update=LoraUpdate())}
    )
    async with site.running(other, site.trainer, env_worker) as client:
        assert name in await ended_by(client, config)


async def batches_wait_for_the_trainer(folder: Path, stands_still: asyncio.Event) -> None:
    """As many as staleness allows, each for longer than the alarm asks for."""
    name, site = AlarmName.GATE_CLOSED, site_in(folder)
    keys: Keys = {"environment": by_chance(), "algorithm": {"max_staleness": 3}}
    async with site.running(site.gpu_worker, env_worker) as client:
        run = await client.train(untrained(**keys, limits=ending(name)))
        async for event in run.events():
            if isinstance(event.body, StepCompleted) and event.body.step == 1:
                break
        with stopped(forks_running("trainer.child")):
            stands_still.set()
            await recorded(run, n_episodes=5 * 8)  # a batch trained on, one begun, three that wait
            await asyncio.sleep(65.0)
        with pytest.raises(RunFailed, match=rf"limits\.stop_on has {name}"):
            await run.result()


@contextmanager
def stopped(pids: Sequence[int]) -> Generator[None]:
    """They stand still, and neither die nor answer."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


async def recorded(run: Run, n_episodes: int) -> None:
    """Return when so many have ended."""
    async with aclosing(run.trajectories(follow=True, all_attempts=True)) as views:
        async for _ in views:
            n_episodes -= 1
            if not n_episodes:
                return
