"""What training a model takes of a GPU's memory, told before it is loaded.

Invariant: only what can't work is refused, which is weights that alone are more than what is free. What
comes on top depends on the sequences, and is told with it, so that nobody mends half of it.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import torch

from warren_gpu_worker.base_models.loading import chosen_device, chosen_dtype
from warren_gpu_worker.base_models.size import count_parameters
from warren_gpu_worker.fitting import DeviceMemory
from warren_gpu_worker.settings import GpuWorkerSettings

FULL_BYTES = 16
"""For each parameter: weight, gradient and Adam's two moments, in float32."""
_WEIGHT_BYTES = 4
_GIB = 1024**3
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")

FreeBytes = Callable[[], int | None]
"""None: the device's memory is nobody's business (a CPU's)."""


def free_bytes(device: str) -> int | None:
    """What this process could still have of the GPU: what is free, and what torch keeps for later."""
    if device == "cpu" or not torch.cuda.is_available():
        return None
    free, _ = torch.cuda.mem_get_info(None if device in ("auto", "cuda") else device)
    return free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()


def obstacle(folder: str, dtype: torch.dtype, free: int | None, *, full: bool) -> str | None:
    """Why this base model can't be loaded to be trained; None if its weights fit."""
    n_parameters = count_parameters(Path(folder))
    weight_bytes = n_parameters * (_WEIGHT_BYTES if full else dtype.itemsize)
    if free is None or weight_bytes <= free:
        return None
    needed = n_parameters * FULL_BYTES if full else weight_bytes
    how, hint = (
        ("with full parameters", "--vllm-sleep while_training, or train it by LoRA")
        if full
        else ("by LoRA", "a smaller --gpu-memory-share where vLLM has the same GPU")
    )
    return (
        f"it needs {needed / _GIB:.1f} GiB of the GPU's memory to train {how}, and its activations"
        f" on top, and {free / _GIB:.1f} GiB are free: use {hint}, or a GPU with more memory"
    )


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
