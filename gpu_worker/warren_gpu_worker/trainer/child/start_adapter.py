"""A LoRA model that starts with somebody's adapter.

Invariant: an adapter fits as it is (same rank, scale and modules) or is refused; nothing is guessed.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from safetensors.torch import (
    load_file,  # pyright: ignore[reportUnknownVariableType]
)
from torch import Tensor

from warren_gpu_worker.atomic_folder import fetch_unsealed
from warren_gpu_worker.file_progress import Progress, unheard
from warren_gpu_worker.trainer.training.sharding import shard_like
from warren_gpu_worker.trainer.training.trainable_model import SpecError, TrainableModel
from warren_gpu_worker.weights import CONFIG_FILE, WEIGHTS_FILE
from warren_schemas.config import LoraUpdate


def start_with_adapter(
    model: TrainableModel, offered: Mapping[str, str], progress: Progress = unheard
) -> None:
    """Load the adapter that the spec names, if it names one. Raises `SpecError`."""
    update = model.spec.update
    if not isinstance(update, LoraUpdate) or update.start_adapter is None:
        return
    name, url = update.start_adapter, model.spec.start_adapter_url
    if url is None and "@" in name:  # a user's, in whose place come the weights of a checkpoint
        return
    if url is None and name not in offered:
        known = ", ".join(sorted(offered)) or "none"
        raise SpecError(
            f"this worker offers no adapter {name} (it offers {known}), and no adapter was uploaded under this"
            " name; see --adapter and `warren adapters ls`"
        )
    config, tensors = _read(name, url or offered[name], progress)
    _check_scale(name, config, update)
    _copy(name, model, tensors)


def _read(name: str, url: str, progress: Progress) -> tuple[dict[str, object], dict[str, Tensor]]:
    """Contents of the two files that peft writes."""
    weights, config = WEIGHTS_FILE["lora"], CONFIG_FILE["lora"]
    try:
        with tempfile.TemporaryDirectory() as name_of_folder:
            folder = Path(name_of_folder)
            fetch_unsealed(url, (weights, config), folder, progress)
            fields = cast("dict[str, object]", json.loads((folder / config).read_text()))
            return fields, load_file(folder / weights)
    except (OSError, SafetensorError, ValueError) as error:
        raise SpecError(f"adapter {name} at {url} can't be read: {error}") from error


def _check_scale(name: str, config: Mapping[str, object], update: LoraUpdate) -> None:
    """The scale is alpha / rank, so both must be what the weights were trained with."""
    saved = config.get("r"), config.get("lora_alpha")
    if saved != (update.rank, update.alpha):
        raise SpecError(
            f"adapter {name} has rank {saved[0]} and alpha {saved[1]}, the model {update.rank} and"
            f" {update.alpha:g}; set model.update.rank and model.update.alpha to the adapter's"
        )


@torch.no_grad()
def _copy(name: str, model: TrainableModel, tensors: Mapping[str, Tensor]) -> None:
    own = model.policy.tensors
    if different := own.keys() ^ tensors.keys():
        raise SpecError(
            f"adapter {name} sits on other modules than the model's, for example"
            f" {min(different)}; set model.update.targets and model.update.exclude to the adapter's"
        )
    for key, tensor in tensors.items():
        if tensor.shape != own[key].shape:
            raise SpecError(
                f"adapter {name} is of another base model: {key} has the shape"
                f" {tuple(tensor.shape)} instead of {tuple(own[key].shape)}"
            )
        own[key].copy_(shard_like(tensor, own[key]))
