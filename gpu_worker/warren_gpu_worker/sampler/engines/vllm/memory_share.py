"""vLLM's share of its GPU's memory, where nobody has named one.

Alone it takes `ALONE`. A trainer on the same GPU gets what it needs to train by LoRA: the base model's weights once more,
and its activations, of which it can do with less (`trainer.training.pass_budget`), so they get half of what both weights
leave at most. Where that is too little for vLLM the worker does not start, and says what else there is.
"""

import logging
from collections.abc import Callable

import torch

from warren_gpu_worker.base_models.loading import chosen_dtype
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.training_needs import ALONE, GIB, needs_of

_LEAST_CACHE = 0.05
"""Share of the GPU below which vLLM's cache holds too little to be of use."""

log = logging.getLogger(__name__)


def told_share(folder: str, settings: GpuWorkerSettings, total_bytes: Callable[[], int]) -> float:
    """The share, which is told where it depends on the model. Raises `ValueError` if both don't fit."""
    if not _has_trainer_beside(settings):
        return ALONE
    total = total_bytes()
    share = share_beside_trainer(folder, settings, total)
    log.warning(
        "vLLM takes %.2f of the GPU's %.1f GiB and leaves the rest to training by LoRA; --gpu-memory-share"
        " gives it another share",
        share,
        total / GIB,
    )
    return share


def share_beside_trainer(folder: str, settings: GpuWorkerSettings, total_bytes: int) -> float:
    """In hundredths. Raises `ValueError` if both don't fit."""
    dtype = getattr(torch, chosen_dtype(settings.dtype, settings.device))
    needs = needs_of(
        folder,
        dtype.itemsize,
        settings.micro_batch_tokens,
        recomputes=settings.checkpoint_activations,
    )
    own_bytes = needs.weight_bytes // settings.vllm.n_gpus
    rest = ALONE * total_bytes - own_bytes - needs.weight_bytes
    if rest < 2 * _LEAST_CACHE * total_bytes:
        raise ValueError(
            f"the GPU has {total_bytes / GIB:.1f} GiB, and the model's weights take {needs.weight_bytes / GIB:.1f} GiB to be"
            f" trained by LoRA, beside vLLM's {own_bytes / GIB:.1f} GiB and its cache: sample and train on two GPUs"
            " (--roles sampler, --roles trainer), or name vLLM's --gpu-memory-share"
        )
    training = needs.weight_bytes + min(needs.pass_bytes, rest / 2)
    return int(100 * (ALONE - training / total_bytes)) / 100


def _has_trainer_beside(settings: GpuWorkerSettings) -> bool:
    """On one of the sampler's GPUs, at the same time."""
    return "trainer" in settings.roles and not settings.takes_turns
