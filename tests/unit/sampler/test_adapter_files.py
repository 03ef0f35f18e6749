"""Adapters find a place that is large enough, or are refused; nobody dies of a full disk."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import SafetensorError
from safetensors import torch as tensor_files

from warren_gpu_worker.memory_folder import default_parent
from warren_gpu_worker.sampler.engines.port import PolicyUnusable
from warren_gpu_worker.sampler.engines.vllm.adapter_files import parent_with_space, write_adapter
from warren_gpu_worker.weights import PolicyFiles, read_policy_files

MIB = 1 << 20
ADAPTER = PolicyFiles("lora", {"a": torch.zeros(8)}, {"r": 4})


def free(n_bytes: int) -> Callable[[Path], object]:
    return lambda folder: SimpleNamespace(free=n_bytes)


def test_adapters_lie_on_disk_where_memory_is_too_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", free(64 * MIB))
    assert parent_with_space(32 * MIB) == default_parent()
    assert parent_with_space(33 * MIB) == Path(tempfile.gettempdir())


@pytest.mark.parametrize(
    "error", [SafetensorError("I/O error: No space left on device"), OSError(28, "No space left")]
)
def test_an_adapter_that_does_not_fit_is_refused_and_leaves_nothing(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: object, path: Path, **_: object) -> None:
        path.write_bytes(b"half of it")
        raise error

    monkeypatch.setattr(tensor_files, "serialize_file", full)
    with pytest.raises(PolicyUnusable, match=r"no space .* No space left"):
        write_adapter(ADAPTER, tmp_path / "1.draft")
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_is_a_policy(tmp_path: Path) -> None:
    write_adapter(ADAPTER, tmp_path / "1.draft")
    files = read_policy_files("file:///v1", tmp_path / "1.draft")
    assert (files.kind, files.adapter_config) == ("lora", {"r": 4})
    assert files.tensors["a"].shape == (8,)
