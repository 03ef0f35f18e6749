# pyright: reportUnknownVariableType=false
# (safetensors has no types)
"""What a GPU worker makes of the order to load another base model."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelInfo
from safetensors.numpy import save_file
from tests.support.patience import PATIENCE_S

from warren_gpu_worker.base_models.hub_size import HubSize, size_told
from warren_gpu_worker.base_models.size import count_parameters
from warren_gpu_worker.fitting import DeviceMemory
from warren_gpu_worker.reloading import MAX_DEATHS, Reloading
from warren_gpu_worker.sampler.supervisor.greeting import SamplerBroken
from warren_gpu_worker.service import until_played_anew
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


def never_taken_back(reloading: Reloading) -> None:
    def fail() -> None:
        pytest.fail(f"refused: {reloading.cannot_load}")

    reloading.on_change = fail


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


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_worker_whose_sampler_breaks_goes_back_unless_it_is_stopped(
    reloading: Reloading, is_stopped: bool
) -> None:
    assert reloading.begin("other")
    await until_due(reloading)
    reloading.play()

    async def breaking() -> None:
        if is_stopped:
            working.cancel()
        raise SamplerBroken("it can't be sampled from")

    working = asyncio.create_task(until_played_anew(reloading, breaking()))
    if is_stopped:
        with pytest.raises(ExceptionGroup):
            await working
    else:
        await working
        assert list(reloading.play().base_models) == ["own"]


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


def with_weights(folder: Path, n_weights: int) -> None:
    save_file({"w": np.zeros(n_weights, np.float16)}, folder / "model.safetensors")


async def test_what_does_not_fit_is_refused_with_what_it_needs_and_what_there_is(
    reloading: Reloading, tmp_path: Path
) -> None:
    with_weights(tmp_path / "other", 1 << 20)
    taken_back = asyncio.Event()
    reloading.on_change = taken_back.set
    reloading.note_ready(DeviceMemory((4 << 20) - 1, bytes_per_weight=4, is_gpu=True))
    waiting = asyncio.create_task(until_due(reloading))
    assert reloading.begin("other")
    async with asyncio.timeout(PATIENCE_S):
        await taken_back.wait()
    (refused,) = reloading.cannot_load
    assert refused.base_model == "other" and not reloading.begin("other")
    assert refused.reason == ("its weights need 0.0 GiB of memory, and the GPU has 0.0 GiB")
    waiting.cancel()


async def test_what_can_just_be_sampled_from_is_loaded(
    reloading: Reloading, tmp_path: Path
) -> None:
    with_weights(tmp_path / "other", 1 << 20)
    reloading.note_ready(DeviceMemory(4 << 20, bytes_per_weight=4, is_gpu=False))
    never_taken_back(reloading)
    assert reloading.begin("other")
    await until_due(reloading)
    assert list(reloading.play().base_models) == ["other"] and not reloading.cannot_load


async def test_what_it_was_started_with_is_never_too_large(
    reloading: Reloading, tmp_path: Path
) -> None:
    with_weights(tmp_path / "own", 1 << 20)
    with_weights(tmp_path / "other", 0)
    reloading.note_ready(DeviceMemory(1, bytes_per_weight=4, is_gpu=True))
    for base_model in ("other", "own"):
        never_taken_back(reloading)
        assert reloading.begin(base_model)
        await until_due(reloading)
        assert list(reloading.play().base_models) == [base_model]
        reloading.note_ready(DeviceMemory(1, bytes_per_weight=4, is_gpu=True))
    assert not reloading.cannot_load


@pytest.mark.parametrize("is_sharded", [True, False])
def test_weights_that_are_there_in_a_second_layout_count_once(
    tmp_path: Path, is_sharded: bool
) -> None:
    shards = ["model-1-of-2.safetensors", "model-2-of-2.safetensors"]
    files = shards if is_sharded else ["model.safetensors"]
    for file in [*files, "consolidated.safetensors"]:
        save_file({file: np.zeros(3, np.float16)}, tmp_path / file)
    if is_sharded:
        index = json.dumps({"weight_map": {file: file for file in files}})
        (tmp_path / "model.safetensors.index.json").write_text(index)
    assert count_parameters(tmp_path) == 3 * len(files)


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (HubSize(1 << 29, 1), "its weights need 2.0 GiB of memory, and the GPU has 1.0 GiB"),
        (HubSize(1, 1 << 70), "its files need 1099511627776.0 GiB on the worker's disk, and"),
    ],
)
async def test_what_finds_no_room_is_not_downloaded(size: HubSize, reason: str) -> None:
    settings = GpuWorkerSettings(base_models={"own": "/"}, may_load=("made-up/*",))
    reloading = Reloading(settings, lambda name: size)
    reloading.play()
    reloading.note_ready(DeviceMemory(1 << 30, bytes_per_weight=4, is_gpu=True))
    taken_back = asyncio.Event()
    reloading.on_change = taken_back.set
    waiting = asyncio.create_task(until_due(reloading))
    assert reloading.begin("made-up/model")
    async with asyncio.timeout(PATIENCE_S):
        await taken_back.wait()
    (refused,) = reloading.cannot_load
    assert refused.reason.startswith(reason)
    waiting.cancel()


def test_the_hub_tells_weights_and_the_files_that_are_downloaded() -> None:
    files = {"model.safetensors": 8, "config.json": 1, "pytorch_model.bin": 100}
    told: dict[str, object] = {
        "id": "some/model",
        "siblings": [{"rfilename": name, "size": size} for name, size in files.items()],
    }
    assert size_told(ModelInfo(**told)) is None
    counted = {"parameters": {"F32": 2}, "total": 2}
    assert size_told(ModelInfo(**told, safetensors=counted)) == HubSize(2, 9)


async def test_what_nobody_foresaw_as_it_is_fetched_is_refused(
    reloading: Reloading, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "other" / "model.safetensors.index.json").write_text("[]")
    reloading.note_ready(DeviceMemory(1 << 20, bytes_per_weight=4, is_gpu=False))
    taken_back = asyncio.Event()
    reloading.on_change = taken_back.set
    waiting = asyncio.create_task(reloading.until_due())
    told = asyncio.create_task(taken_back.wait())
    assert reloading.begin("other")
    await asyncio.wait((waiting, told), return_when="FIRST_COMPLETED", timeout=PATIENCE_S)
    assert not waiting.done()
    assert [one.base_model for one in reloading.cannot_load] == ["other"]
    assert "TypeError" in caplog.text
    waiting.cancel()
