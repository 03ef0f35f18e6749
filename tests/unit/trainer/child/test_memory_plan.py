"""A model that can't fit is refused before it is loaded, with what it needs, what is free, what to do."""

import gc
import shutil
import weakref
from pathlib import Path

import pytest
import torch
from tests.support.base_models import base_folder
from tests.support.trainer import BASE, FULL, LORA
from transformers import PreTrainedModel

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


def test_the_base_of_a_run_that_has_ended_is_there_for_the_next_one(base_folder: Path) -> None:
    made = ModelFactory(EngineConfig({BASE: str(base_folder)}, "memory://checkpoints"), ALONE)
    base = loaded_base(made)
    assert base() is not None
    assert made.make(LORA).base is base()


@pytest.mark.slow
def test_a_base_that_nobody_uses_is_given_back_before_anything_else_is_loaded(
    base_folder: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(base_folder, tmp_path / "other"))
    config = EngineConfig({BASE: str(base_folder), "other": str(other)}, "memory://checkpoints")
    bases: list[weakref.ref[PreTrainedModel]] = []
    there: list[bool] = []

    def free() -> None:
        """Asked before something is loaded."""
        there.extend(base() is not None for base in bases)

    made = ModelFactory(config, ALONE, free=free)
    bases.append(loaded_base(made))
    made.make(LORA.model_copy(update={"base_model": "other"}))
    bases[:] = [loaded_base(made)]
    made.make(FULL)
    assert there == [False, False, False]


def loaded_base(made: ModelFactory) -> "weakref.ref[PreTrainedModel]":
    """Of a LoRA model that is closed again."""
    base = made.make(LORA).base
    assert base is not None
    found = weakref.ref(base)
    del base
    gc.collect()
    return found
