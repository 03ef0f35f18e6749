"""What a GPU worker makes of the order to load another base model."""

import asyncio
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S

from warren_gpu_worker.reloading import MAX_DEATHS, Reloading
from warren_gpu_worker.settings import GpuWorkerSettings


@pytest.fixture
def reloading(tmp_path: Path) -> Reloading:
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    settings = GpuWorkerSettings(
        base_models={"own": str(tmp_path / "own")},
        may_load=(f"other={tmp_path / 'other'}", str(tmp_path / "gone")),
    )
    reloading = Reloading(settings)
    reloading.play()
    reloading.note_ready()
    return reloading


async def until_due(reloading: Reloading) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await reloading.until_due()


async def test_it_plays_anew_with_what_it_was_told_and_back(reloading: Reloading) -> None:
    assert reloading.may_load == ("gone", "other")
    assert reloading.begin("other")
    assert reloading.told == "other" and list(reloading.settings.base_models) == ["own"]
    await until_due(reloading)
    assert list(reloading.play().base_models) == ["other"]
    assert reloading.told is None and reloading.may_load == ("gone", "own")
    assert not reloading.begin("own")  # not before it has loaded this one
    reloading.note_ready()
    assert reloading.begin("own")
    await until_due(reloading)
    assert list(reloading.play().base_models) == ["own"]


def test_an_order_that_comes_twice_or_to_a_worker_that_is_not_idle_changes_nothing(
    reloading: Reloading,
) -> None:
    n_turns = 1
    reloading.n_turns = lambda: n_turns
    assert not reloading.begin("other")
    n_turns = 0
    assert not reloading.begin("own") and not reloading.begin("unheard of")
    assert reloading.begin("other")
    assert not reloading.begin("other") and not reloading.begin("gone")


async def test_what_is_not_there_is_not_tried_again(reloading: Reloading) -> None:
    taken_back = asyncio.Event()
    reloading.on_change = taken_back.set
    waiting = asyncio.create_task(until_due(reloading))
    assert reloading.begin("gone")
    async with asyncio.timeout(PATIENCE_S):
        await taken_back.wait()
    assert reloading.told is None and reloading.may_load == ("other",)
    assert reloading.begin("other")
    await waiting
    reloading.play()
    assert reloading.go_back()
    assert list(reloading.play().base_models) == ["own"] and reloading.may_load == ()
    assert not reloading.go_back()


async def test_what_the_trainer_dies_of_as_it_loads_is_given_up(reloading: Reloading) -> None:
    for _ in range(MAX_DEATHS):
        reloading.note_death()  # of what it was started with, which it keeps
    assert reloading.begin("other")
    await until_due(reloading)
    assert list(reloading.play().base_models) == ["other"]
    waiting = asyncio.create_task(until_due(reloading))
    for _ in range(MAX_DEATHS):
        assert list(reloading.settings.base_models) == ["other"]
        reloading.note_death()
    await waiting
    assert list(reloading.play().base_models) == ["own"] and reloading.may_load == ("gone",)


async def test_deaths_of_a_trainer_that_has_loaded_it_change_nothing(reloading: Reloading) -> None:
    assert reloading.begin("other")
    await until_due(reloading)
    reloading.play()
    reloading.note_ready()
    for _ in range(MAX_DEATHS):
        reloading.note_death()
    assert reloading.begin("own")
    await until_due(reloading)
    assert list(reloading.play().base_models) == ["own"] and "other" in reloading.may_load


def test_a_worker_that_may_load_nothing_takes_no_order() -> None:
    reloading = Reloading(GpuWorkerSettings(base_models={"own": "/"}))
    reloading.play()
    reloading.note_ready()
    assert reloading.may_load == () and not reloading.begin("own")
