# pyright: reportUnknownMemberType=false
"""Export: a policy or checkpoint as a folder that other tools load, wherever it goes.

merged or full   transformers' `from_pretrained`, tokenizer included; vLLM
adapter          peft's `from_pretrained` around the base model; vLLM

Invariants: the folder appears whole or not at all; nothing is overwritten; weights are those that
were verified against their seal.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

from warren_gpu_worker.atomic_folder import open_folder
from warren_gpu_worker.base_models import load_base, load_tokenizer
from warren_gpu_worker.weights import CONFIG_FILE, WEIGHTS_FILE, PolicyKind

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class CannotExport(Exception):
    """The policy can't be exported like this; says why and what to do."""


def export_policy(url: str, to: Path, *, base_folder: str | None, adapter: bool = False) -> str:
    """Write the policy at `url` to the new folder `to`; what it is, in a word or two.

    An adapter is merged into the base model in `base_folder`, unless `adapter` asks for it alone.
    Raises `CannotExport`, `FolderUnreadable`, `OSError`.
    """
    if to.exists():
        raise CannotExport(f"{to} already exists; name a folder that is not")
    to.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{to.name}-", dir=to.parent))
    try:
        with open_folder(url) as folder:
            kind = _write(folder, stage, base_folder, adapter=adapter)
        stage.chmod(0o755)
        os.rename(stage, to)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return kind


def _write(folder: Path, stage: Path, base_folder: str | None, *, adapter: bool) -> str:
    is_lora = (folder / WEIGHTS_FILE["lora"]).exists()
    if adapter:
        if not is_lora:
            raise CannotExport("all weights of this model were trained: it has no adapter")
        _copy("lora", folder, stage)
        return "adapter"
    if base_folder is None:
        raise CannotExport("the base model is needed: for its tokenizer, and to merge an adapter")
    if is_lora:
        _merged(folder, base_folder).save_pretrained(stage)
    else:
        _copy("full", folder, stage)
    load_tokenizer(base_folder).save_pretrained(stage)
    return "merged model" if is_lora else "model"


def _copy(kind: PolicyKind, folder: Path, stage: Path) -> None:
    for name in (WEIGHTS_FILE[kind], CONFIG_FILE[kind]):
        shutil.copyfile(folder / name, stage / name)


def _merged(folder: Path, base_folder: str) -> "PreTrainedModel":
    """W + (alpha / r) B A, added in float32 and kept in the base's own dtype."""
    from peft import PeftModel

    base = load_base(base_folder, "float32")
    adapted = PeftModel.from_pretrained(base, str(folder))
    merged = cast("PreTrainedModel", adapted.merge_and_unload())  # pyright: ignore[reportCallIssue]
    return merged.to(_dtype(base_folder))  # pyright: ignore[reportArgumentType]


def _dtype(base_folder: str) -> "torch.dtype":
    import torch

    config = json.loads((Path(base_folder) / "config.json").read_text())
    name = config.get("dtype") or config.get("torch_dtype") or "float32"
    return cast("torch.dtype", getattr(torch, name))
