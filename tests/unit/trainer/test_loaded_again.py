"""What a GPU worker takes for its own as it loads base models, and for room on its disk."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub.constants
import pytest
from tests.support.patience import PATIENCE_S

from warren_gpu_worker.base_models.hub_size import free_cache_bytes
from warren_gpu_worker.reloading import Reloading
from warren_gpu_worker.settings import GpuWorkerSettings


def with_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


async def test_what_it_was_started_with_is_known_again_also_behind_a_link(tmp_path: Path) -> None:
    """As where the cache of the Hugging Face hub lies on another disk."""
    with_model(tmp_path / "disk" / "own")
    other = with_model(tmp_path / "other")
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    started = GpuWorkerSettings(
        base_models={"own": str(tmp_path / "cache" / "own")}, may_load=(f"other={other}",)
    )
    reloading = Reloading(started)
    reloading.play()
    for base_model in ("other", "own"):
        reloading.note_ready()
        assert reloading.begin(base_model)
        async with asyncio.timeout(PATIENCE_S):
            await reloading.until_due()
        reloading.play()
    assert reloading.settings.base_models == started.base_models
    assert not reloading.go_back(), "it has what it was started with"


def usage(_: Path) -> SimpleNamespace:
    return SimpleNamespace(free=7)


def test_what_was_downloaded_before_takes_no_more_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a worker that died meanwhile: the hub's library goes on where it was."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    blobs = tmp_path / "models--some--model" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "a").write_bytes(b"1" * 1000)
    (blobs / "b.incomplete").write_bytes(b"1" * 500)
    monkeypatch.setattr("shutil.disk_usage", usage)
    assert free_cache_bytes("some/model") == 1507
    assert free_cache_bytes("another/model") == 7
