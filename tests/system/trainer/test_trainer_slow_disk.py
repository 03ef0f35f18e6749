"""A child that moves files slowly is left alone; one whose disk stands still is replaced."""

import os
from functools import partial
from pathlib import Path

import pytest
from tests.support.forked_models import spawn_ranks
from tests.support.slow_disk import VARIABLE, Disk
from tests.support.trainer import FULL, done
from tests.support.trainer_owner import Owner, serving

from warren_broker.memory.hub import MemoryHub
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.training import SaveState

SPAWN_SLOW = partial(spawn_ranks, module="tests.support.slow_disk")
HANG_S = 10.0
ONE_STEP_S = 15.0
"""More than `HANG_S`, and on top of it less than `PATIENT_S`."""
PATIENT_S = 60.0
LARGE_BYTES = 100_000


@pytest.fixture
def settings(settings: GpuWorkerSettings) -> GpuWorkerSettings:
    return settings.model_copy(update={"hang_s": HANG_S})


def use(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ".", prepend=os.pathsep)
    monkeypatch.setenv(VARIABLE, disk.model_dump_json())


async def save_in_one_go(hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings) -> None:
    async with serving(hub.client("worker"), settings, spawn_ranks=SPAWN_SLOW):
        await owner.open(FULL, epoch=1)
        await owner.send(1, [(1, SaveState(name="it"))])
        await owner.until(lambda: 1 in owner.outcomes(1) or owner.held() == ())
        assert 1 in owner.outcomes(1), "the child was killed in the middle of its save"
        done(owner.outcomes(1)[1])


async def test_a_save_of_many_slow_steps_is_no_hang(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of five files and two folders takes a quarter of what a child may say nothing for."""
    use(Disk(stopped=tmp_path / "never", sync_s=HANG_S / 4), monkeypatch)
    await save_in_one_go(hub, owner, settings)


async def test_one_step_may_take_as_long_as_its_bytes_do_on_a_slow_disk(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = Disk(stopped=tmp_path / "never", sync_s=ONE_STEP_S, slow_from_bytes=LARGE_BYTES)
    use(disk, monkeypatch)
    patient = settings.model_copy(update={"min_disk_bytes_per_s": LARGE_BYTES / PATIENT_S})
    await save_in_one_go(hub, owner, patient)


async def test_a_child_whose_disk_stands_still_is_replaced(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = tmp_path / "stopped"
    use(Disk(stopped=stopped), monkeypatch)
    async with serving(hub.client("worker"), settings, spawn_ranks=SPAWN_SLOW):
        await owner.open(FULL, epoch=1)
        stopped.touch()
        await owner.send(1, [(1, SaveState(name="it"))])
        await owner.until_held()
        stopped.unlink()
        await owner.open(FULL, epoch=2)
        (saved,) = await owner.apply(2, [SaveState(name="it")])
    done(saved)
    assert owner.outcomes(1).keys() == {0}
