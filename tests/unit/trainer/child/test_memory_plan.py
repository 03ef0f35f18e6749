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
from warren_gpu_worker.trainer.child.memory_plan import (
    GpuMemory,
    count_parameters,
    free_memory,
    obstacle,
)
from warren_gpu_worker.trainer.child.model_factory import EngineConfig, ModelFactory
from warren_gpu_worker.trainer.training.ranks import ALONE
from warren_gpu_worker.trainer.training.trainable_model import SpecError
from warren_gpu_worker.training_needs import FULL_BYTES, needs_of
from warren_schemas.training import ModelSpec

__all__ = ["base_folder"]


GIB = 1024**3


def gpu(free_bytes: int) -> GpuMemory:
    return GpuMemory(free_bytes, 80 * GIB)


def factory(base_folder: Path, free_bytes: int) -> ModelFactory:
    config = EngineConfig({BASE: str(base_folder)}, "memory://checkpoints", dtype="bfloat16")
    return ModelFactory(config, ALONE, free=lambda: gpu(free_bytes))


def test_parameters_are_counted_without_loading_them(base_folder: Path) -> None:
    model = load_base(str(base_folder))
    assert count_parameters(base_folder) == sum(p.numel() for p in model.parameters())


def test_a_cpu_has_no_memory_to_plan(base_folder: Path) -> None:
    assert free_memory("cpu") is None
    assert obstacle(str(base_folder), torch.float32, None, full=True, n_tokens=1) is None


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
    """And activations: a pass of so many tokens that they are most of it."""
    n_bytes = count_parameters(base_folder) * 16
    told = told_of(base_folder, 0, n_tokens=0)
    assert f"needs {n_bytes / GIB:.1f} GiB" in told
    assert "needs 0.0 GiB" not in told_of(base_folder, 0, n_tokens=1 << 20)


def told_of(base_folder: Path, total_bytes: int, n_tokens: int) -> str:
    memory = GpuMemory(0, total_bytes or GIB)
    told = obstacle(str(base_folder), torch.bfloat16, memory, full=True, n_tokens=n_tokens)
    assert told is not None
    return told


def test_the_share_that_would_do_is_named_if_it_leaves_enough(base_folder: Path) -> None:
    """Passes of so many tokens need about 4.6 GiB."""
    n_tokens = 1 << 20
    needs = needs_of(str(base_folder), FULL_BYTES, n_tokens, recomputes=True).all_bytes
    share = 0.9 - needs / (80 * GIB)
    told = told_of(base_folder, 80 * GIB, n_tokens)
    assert f"use --gpu-memory-share {int(100 * share) / 100:.2f} where vLLM has the same" in told
    assert "--gpu-memory-share" not in told_of(base_folder, needs, n_tokens)


def test_a_base_that_is_loaded_already_is_shared_whatever_is_free(base_folder: Path) -> None:
    free = [1 << 30]
    config = EngineConfig({BASE: str(base_folder)}, "memory://checkpoints")
    shared = ModelFactory(config, ALONE, free=lambda: gpu(free[0]))
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

    def free() -> GpuMemory | None:
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
