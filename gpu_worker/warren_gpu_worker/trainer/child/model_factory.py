# pyright: reportUnknownMemberType=false
"""Where models are made: from a spec, a base model's folder and what the worker offers.

Invariants: the same spec gives the same weights; LoRA models on the same base share its tensors. The base that
was used last stays loaded for the next run, and its memory is given back before anything else is loaded.
"""

import gc
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import torch
from transformers import PreTrainedModel

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.loading import chosen_dtype
from warren_gpu_worker.base_models.vocabulary import folder_digest
from warren_gpu_worker.file_progress import Progress, folder_bytes, unheard
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.child.memory_plan import FreeMemory, free_memory, obstacle
from warren_gpu_worker.trainer.child.start_adapter import start_with_adapter
from warren_gpu_worker.trainer.training.gradient_checkpointing import checkpoint_activations
from warren_gpu_worker.trainer.training.ranks import Ranks
from warren_gpu_worker.trainer.training.trainable_model import (
    SpecError,
    TrainableModel,
    build_full,
    build_lora,
)
from warren_schemas.training import KEEP_POLICIES, ModelSpec, is_full


@dataclass(frozen=True, slots=True)
class EngineConfig:
    base_models: Mapping[str, str]
    """Name -> folder."""
    checkpoint_url: str
    device: str = "cpu"
    dtype: str = "float32"
    micro_batch_tokens: int = 16_384
    """Most tokens, padding included, of one forward pass."""
    checkpoint_activations: bool = False
    resident_models: int = 8
    """LoRA models whose tensors are in memory."""
    adapters: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name -> folder or URL."""
    keep_policies: int = KEEP_POLICIES
    """Versions of each model that stay readable."""
    packs: bool = True
    """Rows go without padding, where the model can do that."""
    splits: bool = False
    """Rows are split over the ranks."""

    @classmethod
    def of(cls, settings: GpuWorkerSettings) -> "EngineConfig":
        return cls(
            settings.base_models,
            settings.checkpoint_url,
            settings.device,
            chosen_dtype(settings.dtype, settings.device),
            settings.micro_batch_tokens,
            settings.checkpoint_activations,
            settings.resident_models,
            settings.adapters,
            packs=settings.pack_sequences,
            splits=settings.split_sequences,
        )


class ModelFactory:
    """Each rank has one, and all make the same."""

    def __init__(
        self,
        config: EngineConfig,
        ranks: Ranks,
        progress: Progress = unheard,
        free: FreeMemory | None = None,
    ) -> None:
        """`free` says what is free of the device's memory; by default the device itself does."""
        self._free_memory = free or partial(free_memory, config.device)
        self._config = config
        self._ranks = ranks
        self._progress = progress
        self._bases: weakref.WeakValueDictionary[str, PreTrainedModel] = (
            weakref.WeakValueDictionary()
        )
        self._kept: PreTrainedModel | None = None
        """What the LoRA models were made on last: runs that follow each other needn't load it again."""

    def make(self, spec: ModelSpec) -> TrainableModel:
        """A new model. Raises `SpecError`, `NoLayers`, and what loading a base model raises."""
        model = self._full(spec) if is_full(spec) else self._lora(spec)
        if self._config.checkpoint_activations:
            checkpoint_activations(model.network.decoder)
        return model

    def vocabulary(self, spec: ModelSpec) -> str:
        """Digest of what the model's token ids stand for."""
        return folder_digest(self._folder(spec))

    def _full(self, spec: ModelSpec) -> TrainableModel:
        dtype = cast("torch.dtype", getattr(torch, self._config.dtype))
        master = torch.promote_types(dtype, torch.float32)
        autocast = None if dtype is master else dtype
        self._let_go()
        self._check_memory(spec, dtype)
        base = self._load(self._folder(spec), str(master).removeprefix("torch."))
        packs, splits = self._config.packs, self._config.splits
        return build_full(spec, base, autocast, self._ranks, packs=packs, splits=splits)

    def _lora(self, spec: ModelSpec) -> TrainableModel:
        folder = self._folder(spec)
        base = self._bases.get(folder)
        if base is None:
            self._let_go()
            self._check_memory(spec, cast("torch.dtype", getattr(torch, self._config.dtype)))
            base = self._load(folder, self._config.dtype)
        if self._ranks.size == 1:
            self._bases[folder] = self._kept = base
        packs, splits = self._config.packs, self._config.splits
        model = build_lora(spec, base, self._ranks, packs=packs, splits=splits)
        start_with_adapter(model, self._config.adapters, self._progress)
        return model

    def _let_go(self) -> None:
        """Keep no base for runs to come; models that live on keep theirs."""
        if self._kept is not None:
            self._kept = None
            gc.collect()  # its modules hang together

    def _check_memory(self, spec: ModelSpec, dtype: torch.dtype) -> None:
        """Raises `SpecError` if the weights can't fit; several ranks share them out, and load layer by layer."""
        if self._ranks.size > 1:
            return
        n_tokens, free = self._config.micro_batch_tokens, self._free_memory()
        folder, full = self._folder(spec), is_full(spec)
        if reason := obstacle(folder, dtype, free, full=full, n_tokens=n_tokens):
            raise SpecError(f"{spec.base_model} doesn't fit: {reason}")

    def _folder(self, spec: ModelSpec) -> str:
        folder = self._config.base_models.get(spec.base_model)
        if folder is None:
            offered = ", ".join(sorted(self._config.base_models))
            raise SpecError(f"this worker has no base model {spec.base_model}, only {offered}")
        return folder

    def _load(self, folder: str, dtype: str) -> PreTrainedModel:
        """Shards go to their devices layer by layer, as the whole may be too large for any."""
        self._progress(folder_bytes(Path(folder)))
        return load_base(folder, dtype, self._config.device if self._ranks.size == 1 else "cpu")
