"""A model on two machines: whatever of either is lost, it goes on from its log, with the same bits."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.support.namespaces import OtherMachine, needs_namespaces, other_machine
from tests.support.patience import several_waits
from tests.support.processes import free_port, kill_programs, start_program
from tests.support.trainer import (
    BASE,
    FULL,
    done,
    seal_of,
    some_ops,
)
from tests.support.trainer_children import END, agent_pid, child_pid, kill_child
from tests.support.trainer_owner import Owner, owner_of, serving

from warren_broker.memory import open_hub
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.supervisor.joining import join_trainer
from warren_schemas.training import OpBody, SaveState

pytestmark = several_waits

LOST = {
    "the host of the rendezvous": lambda: os.kill(agent_pid(), signal.SIGKILL),
    "a rank there": partial(kill_child, rank=1),
    "a rank here": partial(kill_child, rank=0),
    "the other machine": lambda: os.kill(agent_pid(joins=True), signal.SIGKILL),
    "a rank there hangs": partial(kill_child, signal.SIGSTOP, rank=1),
}
FAST, *THOROUGH = LOST


def settings_for(base_folder: Path, folder: Path, **fields: object) -> GpuWorkerSettings:
    return GpuWorkerSettings.model_validate(
        {
            "base_models": {BASE: str(base_folder)},
            "checkpoint_url": str(folder),
            "device": "cpu",
            "hang_s": 60.0,
            **fields,
        }
    )


@asynccontextmanager
async def owner_on_two_machines(base_folder: Path, folder: Path) -> AsyncGenerator[Owner]:
    """Of a trainer whose second rank is on a machine that joins."""
    settings = settings_for(base_folder, folder, machines=2, rendezvous=f"127.0.0.1:{free_port()}")
    joining = join_trainer(settings.model_copy(update={"join": True}))
    other = asyncio.create_task(joining, name="the other machine")
    try:
        async with (
            open_hub() as hub,
            serving(hub.client("worker"), settings),
            owner_of(hub.client("owner")) as owner,
        ):
            yield owner
    finally:
        other.cancel()
        await asyncio.wait([other])


@pytest.mark.parametrize(
    "lost",
    [
        FAST,
        *(pytest.param(name, marks=[pytest.mark.storm, pytest.mark.thorough]) for name in THOROUGH),
    ],
)
async def test_it_goes_on_with_the_same_bits_whatever_is_lost(
    base_folder: Path, tmp_path: Path, lost: str
) -> None:
    ops: list[OpBody] = [*some_ops(10, seed=3), END]
    ops[2] = SaveState(name="middle")
    lose: Callable[[], object] = LOST[lost]
    async with owner_on_two_machines(base_folder, tmp_path) as owner:
        await owner.open(FULL, 1)
        assert owner.heartbeats[-1].n_devices == 2
        saved = (await owner.apply(1, ops[:5]))[2]
        assert child_pid(rank=0) != child_pid(rank=1)
        lose()
        await owner.send(1, enumerate(ops[5:], 6))
        await owner.until_held()
        await owner.open(FULL, 2, next_op=4, checkpoint_url=done(saved).checkpoint_url)
        after = await owner.apply(2, ops[3:], first=4)
        await owner.open(FULL, 3)
        expected = await owner.apply(3, ops)
        assert seal_of(after[-1]) == seal_of(expected[-1])


@asynccontextmanager
async def joined_by(other: OtherMachine, settings: GpuWorkerSettings) -> AsyncGenerator[None]:
    """A worker there, started as users do, which joins the trainer of these settings."""
    options = {
        "--base-model": f"{BASE}={settings.base_models[BASE]}",
        "--checkpoints": settings.checkpoint_url,
        "--device": "cpu",
        "--machines": "2",
        "--rendezvous": settings.rendezvous or "",
    }
    words = [word for pair in options.items() for word in pair]
    command = [sys.executable, "-m", "warren", "gpu-worker", "--join", *words]
    environment = {name: value for name, value in os.environ.items() if "BROKER" not in name}
    await start_program(*other.command(command), environment=environment, stderr=None)
    try:
        yield
    finally:
        kill_programs()


@needs_namespaces
@pytest.mark.storm
@pytest.mark.thorough
async def test_a_network_that_is_cut_costs_no_bit_and_two_machines_are_as_good_as_one(
    base_folder: Path, tmp_path: Path
) -> None:
    ops: list[OpBody] = [*some_ops(10, seed=3), END]
    ops[2] = SaveState(name="middle")
    with other_machine() as other:
        rendezvous = f"{other.ours}:{free_port()}"
        both = settings_for(base_folder, tmp_path, machines=2, rendezvous=rendezvous)
        one = settings_for(base_folder, tmp_path, devices=2)
        async with open_hub() as hub, owner_of(hub.client("owner")) as owner:
            async with serving(hub.client("worker"), both), joined_by(other, both):
                await owner.open(FULL, 1)
                saved = (await owner.apply(1, ops[:5]))[2]
                other.cut()
                await owner.send(1, enumerate(ops[5:], 6))
                await owner.until_held()
                other.mend()
                await owner.open(FULL, 2, next_op=4, checkpoint_url=done(saved).checkpoint_url)
                after = await owner.apply(2, ops[3:], first=4)
            async with serving(hub.client("single"), one):
                await owner.open(FULL, 3)
                expected = await owner.apply(3, ops)
        assert seal_of(after[-1]) == seal_of(expected[-1])
