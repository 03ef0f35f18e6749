"""Whether a GPU's memory has room for a model that is to be trained, told before it is loaded.

Invariant: only what can't work is refused, which is weights that alone are more than what is free. What
comes on top depends on the sequences, and is told with it, so that nobody mends half of it.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch

from warren_gpu_worker.base_models.loading import chosen_device, chosen_dtype
from warren_gpu_worker.base_models.size import count_parameters
from warren_gpu_worker.fitting import DeviceMemory
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.training_needs import ALONE, FULL_BYTES, GIB, TrainingNeeds, needs_of

_WEIGHT_BYTES = 4
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_LEAST_SHARE = 0.1
"""Of the GPU, for vLLM: with less than that it is of no use."""


@dataclass(frozen=True, slots=True)
class GpuMemory:
    free_bytes: int
    total_bytes: int


FreeMemory = Callable[[], GpuMemory | None]
"""None: the device's memory is nobody's business (a CPU's)."""


def free_memory(device: str) -> GpuMemory | None:
    """What this process could still have of the GPU: what is free, and what torch keeps for later."""
    if device == "cpu" or not torch.cuda.is_available():
        return None
    free, total = torch.cuda.mem_get_info(None if device in ("auto", "cuda") else device)
    kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return GpuMemory(free + kept, total)


def obstacle(
    folder: str, dtype: torch.dtype, memory: GpuMemory | None, *, full: bool, n_tokens: int
) -> str | None:
    """Why this base model can't be loaded to be trained, in passes of `n_tokens`; None if its weights fit."""
    if memory is None:
        return None
    n_parameters = count_parameters(Path(folder))
    weight_bytes = n_parameters * (_WEIGHT_BYTES if full else dtype.itemsize)
    if weight_bytes <= memory.free_bytes:
        return None
    per_weight = FULL_BYTES if full else dtype.itemsize
    needs = needs_of(folder, per_weight, n_tokens, recomputes=True)
    how = "with full parameters" if full else "by LoRA"
    return (
        f"it needs {needs.all_bytes / GIB:.1f} GiB of the GPU's memory to train {how}, with"
        f" --checkpoint-activations, and {memory.free_bytes / GIB:.1f} GiB are free: use {_hint(needs, memory, full=full)}"
    )


def _hint(needs: TrainingNeeds, memory: GpuMemory, *, full: bool) -> str:
    """What makes room: less for vLLM, turns, or less to train."""
    hints = ["--vllm-sleep while_training", "LoRA in its place"] if full else []
    share = int(100 * (ALONE - needs.all_bytes / memory.total_bytes)) / 100
    if share >= _LEAST_SHARE:
        hints.insert(0, f"--gpu-memory-share {share:.2f} where vLLM has the same GPU")
    return ", or ".join([*hints, "a GPU with more memory" if share < ALONE else "another GPU"])


def device_memory(settings: GpuWorkerSettings) -> DeviceMemory | None:
    """What the (first) device has, where the worker may load other base models."""
    if not settings.may_load:
        return None
    device = chosen_device(settings.device)
    dtype = cast("torch.dtype", getattr(torch, chosen_dtype(settings.dtype, device)))
    is_gpu = device != "cpu"
    total = torch.cuda.mem_get_info(device)[1] if is_gpu else _host_bytes()
    return DeviceMemory(total, dtype.itemsize, is_gpu)


def _host_bytes() -> int:
    """Of the machine, or what of it this container may have."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no container, or "max"
        total = min(total, int(_CGROUP_LIMIT.read_text()))
    return total
