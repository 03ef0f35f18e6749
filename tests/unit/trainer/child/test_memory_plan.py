"""A model that can't fit is refused before it is loaded, with what it needs, what is free, what to do."""

from pathlib import Path

import pytest
import torch
from tests.support.base_models import base_folder
from tests.support.trainer import BASE, FULL, LORA

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.trainer.child.memory_plan import count_parameters, free_bytes, obstacle
from warren_gpu_worker.trainer.child.model_factory import EngineConfig, ModelFactory
from warren_gpu_worker.trainer.training.ranks import ALONE
from warren_gpu_worker.trainer.training.trainable_model import SpecError
from warren_schemas.training import ModelSpec

__all__ = ["base_folder"]


def factory(base_folder: Path, free: int | None) -> ModelFactory:
    config = EngineConfig({BASE: str(base_folder)}, "memory://checkpoints", dtype="bfloat16")
    return ModelFactory(config, ALONE, free=lambda: free)


def test_parameters_are_counted_without_loading_them(base_folder: Path) -> None:
    model = load_base(str(base_folder))
    assert count_parameters(base_folder) == sum(p.numel() for p in model.parameters())


def test_a_cpu_has_no_memory_to_plan(base_folder: Path) -> None:
    assert free_bytes("cpu") is None
    assert obstacle(str(base_folder), torch.float32, None, full=True) is None


@pytest.mark.parametrize(
    ("spec", "weight_bytes", "hint"),
    [
        pytest.param(FULL, 4, "--vllm-sleep while_training", id="full"),
        pytest.param(LORA, 2, "--gpu-memory-share", id="lora"),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_no_others(
    base_folder: Path, spec: ModelSpec, weight_bytes: int, hint: str
) -> None:
    needed = count_parameters(base_folder) * weight_bytes
    factory(base_folder, needed).make(spec)
    with pytest.raises(SpecError, match=f"GiB are free: use .*{hint}"):
        factory(base_folder, needed - 1).make(spec)


def test_what_is_told_counts_gradient_and_optimizer_too(base_folder: Path) -> None:
    n_bytes = count_parameters(base_folder) * 16
    told = obstacle(str(base_folder), torch.bfloat16, 0, full=True)
    assert told is not None
    assert f"needs {n_bytes / 1024**3:.1f} GiB" in told


def test_a_base_that_is_loaded_already_is_shared_whatever_is_free(base_folder: Path) -> None:
    free = [1 << 30]
    config = EngineConfig({BASE: str(base_folder)}, "memory://checkpoints")
    shared = ModelFactory(config, ALONE, free=lambda: free[0])
    first = shared.make(LORA)
    free[0] = 0
    assert shared.make(LORA).base is first.base
