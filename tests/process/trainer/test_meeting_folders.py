"""Folders in which the ranks of a trainer meet: none is left behind, whoever is killed."""

import os
import tempfile
from pathlib import Path

import pytest

from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.supervisor import rank_processes

NOBODY = 2**22 + 1
"""More than any process id."""


def _settings(devices: int) -> GpuWorkerSettings:
    return GpuWorkerSettings(base_models={"tiny": "/nowhere"}, devices=devices)


def test_a_folder_of_a_supervisor_that_was_killed_is_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"warren-ranks-{NOBODY}-abc"
    left.mkdir()
    ours = rank_processes._made(_settings(2))  # pyright: ignore[reportPrivateUsage]
    assert ours.is_dir() and not left.exists()
    assert ours.name.startswith(f"warren-ranks-{os.getpid()}-")
    again = rank_processes._made(_settings(2))  # pyright: ignore[reportPrivateUsage]
    assert ours.is_dir() and again.is_dir(), "one that is in use stays"


def test_one_rank_alone_needs_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rank_processes._made(_settings(1))  # pyright: ignore[reportPrivateUsage]
    assert list(tmp_path.iterdir()) == []
