"""Policies on disk: what a trainer publishes and a sampler loads.

A policy is a sealed folder (see `sealed_folder`) in the formats that other tools read:

full    model.safetensors, config.json                     transformers' `from_pretrained`
lora    adapter_model.safetensors, adapter_config.json     peft's `PeftModel.from_pretrained`

Invariants: a policy is whole or not there; tied weights are stored once; weights keep their dtype.
"""

import json
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from safetensors import SafetensorError
from safetensors.torch import (
    load_file,  # pyright: ignore[reportUnknownVariableType]
    save_file,  # pyright: ignore[reportUnknownVariableType]
)
from torch import Tensor
from torch import dtype as Dtype

from warren_gpu_worker.atomic_folder import (
    FolderUnreadable,
    open_folder,
    place_on_disk,
    put_folder,
    write_folder,
)
from warren_gpu_worker.file_progress import Progress, unheard
from warren_gpu_worker.policy_copies import LocalCopies, find_copy

if TYPE_CHECKING:  # slow to import, and whoever has such a model has done it already
    from peft import LoraConfig, PeftModel
    from transformers import PreTrainedModel

PolicyKind = Literal["full", "lora"]
WEIGHTS_FILE: dict[PolicyKind, str] = {
    "full": "model.safetensors",
    "lora": "adapter_model.safetensors",
}
CONFIG_FILE: dict[PolicyKind, str] = {"full": "config.json", "lora": "adapter_config.json"}
_ADAPTER = "default"


@dataclass(frozen=True, slots=True)
class PolicyView:
    """The weights of a live model under the names that files use, and its configuration file."""

    kind: PolicyKind
    tensors: dict[str, Tensor]
    """Views, not copies: they change as the model is trained."""
    config: str

    @property
    def size_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())


class Staged:
    """A folder that an engine wrote ahead of a policy's use; gone with the last who holds this, unless it was moved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __del__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """A policy as it was read: `tensors` on the CPU, by the names of the files."""

    kind: PolicyKind
    tensors: dict[str, Tensor]
    adapter_config: dict[str, object] | None
    """Contents of `adapter_config.json`; None for full weights."""
    staged: Staged | None = None


def view_policy(model: "PreTrainedModel | PeftModel") -> PolicyView:
    """Look at a model as a policy. Cheap enough to do once, too slow to do at every step."""
    from peft import PeftModel

    if isinstance(model, PeftModel):
        return PolicyView("lora", _adapter_tensors(model), _adapter_config(model))
    return PolicyView("full", _all_tensors(model), model.config.to_json_string())


def save_policy(model: "PreTrainedModel | PeftModel", url: str) -> int:
    """Write the model's weights (a peft model: its adapter) to `url`; the size in bytes.

    Raises `OSError` when the place can't be written.
    """
    return write_policy(view_policy(model), url)


def write_policy(
    policy: PolicyView,
    url: str,
    copies: LocalCopies | None = None,
    progress: Progress = unheard,
) -> int:
    """Write what `view_policy` looked at; the size in bytes. Raises `OSError`.

    What goes to another host is left among `copies` as well, and what goes to a disk of this one is linked there.
    """
    fill, place = partial(write_policy_files, policy, progress=progress), place_on_disk(url)
    stage = None
    if copies and place is None:
        stage = copies.stage(url, policy.size_bytes, fill)
    if copies is None or stage is None:
        size_bytes = write_folder(url, fill, progress=progress)
        if copies and place is not None:
            copies.link(url, place)
        return size_bytes
    size_bytes = put_folder(url, stage, progress)
    copies.show(url, stage)
    return size_bytes


def as_sampled(policy: PolicyView, dtype: Dtype | None) -> PolicyView:
    """The weights as samplers compute with them: of this type, where training keeps them in a finer one.

    One after the other goes to the host, so a device needs room for one more of them. An adapter stays as it is: it is small.
    """
    if dtype is None or policy.kind == "lora":
        return policy
    tensors = {
        name: tensor.to(dtype).cpu() if tensor.is_floating_point() else tensor
        for name, tensor in policy.tensors.items()
    }
    return replace(policy, tensors=tensors)


def pinned(files: PolicyFiles) -> PolicyFiles:
    """Full weights in memory from which a GPU copies several times as fast; read now, not when it does."""
    if files.kind == "lora":
        return files
    tensors = {name: tensor.pin_memory() for name, tensor in files.tensors.items()}
    return replace(files, tensors=tensors)


def write_policy_files(policy: PolicyView, folder: Path, progress: Progress = unheard) -> None:
    """Write the two files into a local folder."""
    progress(policy.size_bytes)
    tensors = {name: tensor.contiguous() for name, tensor in policy.tensors.items()}
    save_file(tensors, folder / WEIGHTS_FILE[policy.kind], metadata={"format": "pt"})
    (folder / CONFIG_FILE[policy.kind]).write_text(policy.config)


def fetch_policy(url: str, copies_parent: Path | None = None) -> PolicyFiles:
    """Read and verify a policy, or take the copy of it that a trainer on this host has left.

    `copies_parent` is where trainers leave copies; by default the host's memory.

    Raises `FolderUnreadable` when it is not there (any more), unfinished or damaged, and `OSError`
    when the place can't be reached.
    """
    if copy := find_copy(url, copies_parent):
        with suppress(OSError, FolderUnreadable):  # it may go while it is read
            return read_policy_files(url, copy)
    with open_folder(url) as folder:
        return read_policy_files(url, folder)


def read_policy_files(url: str, folder: Path) -> PolicyFiles:
    """Read the two files from a local folder; `url` is for the error message."""
    for kind, name in WEIGHTS_FILE.items():
        if (folder / name).exists():
            return PolicyFiles(kind, _load(url, folder / name), _read_config(kind, folder))
    raise FolderUnreadable(url, f"holds none of {', '.join(WEIGHTS_FILE.values())}")


def _load(url: str, file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except SafetensorError as error:
        raise FolderUnreadable(url, f"is damaged: {file.name}: {error}") from error


def _read_config(kind: PolicyKind, folder: Path) -> dict[str, object] | None:
    if kind == "full":
        return None
    return cast("dict[str, object]", json.loads((folder / CONFIG_FILE[kind]).read_text()))


def _all_tensors(model: "PreTrainedModel") -> dict[str, Tensor]:
    """Parameters and persistent buffers; of tied parameters the first name only."""
    aliases = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    tied = aliases - {name for name, _ in model.named_parameters()}
    state = cast("dict[str, Tensor]", model.state_dict())
    return {name: tensor for name, tensor in state.items() if name not in tied}


def _adapter_tensors(model: "PeftModel") -> dict[str, Tensor]:
    """The trained parameters, by peft's names for files: without the adapter's name."""
    return {
        name.replace(f".{_ADAPTER}.", "."): parameter.detach()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def _adapter_config(model: "PeftModel") -> str:
    config = cast("LoraConfig", model.peft_config[_ADAPTER])
    fields = cast("dict[str, object]", config.to_dict())
    return json.dumps(
        {**fields, "inference_mode": True}, default=_sorted_list, indent=2, sort_keys=True
    )


def _sorted_list(value: object) -> list[str]:
    """peft keeps the names of modules as sets, whose order would differ from run to run."""
    return sorted(cast("Iterable[str]", value))
