"""Small adapters as PEFT writes them, right and wrong."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

CONFIG: dict[str, Any] = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "r": 4,
    "lora_alpha": 8,
    "target_modules": ["q_proj", "v_proj"],
    "base_model_name_or_path": "warren/tiny",
    "bias": "none",
    "lora_dropout": 0.05,
    "peft_version": "0.21.2",
    "loftq_config": {},
    "use_dora": False,
}
Tensors = Mapping[str, tuple[str, tuple[int, ...], bytes]]
"""dtype, shape, bytes."""


def half(module: str, letter: str) -> str:
    return f"base_model.model.model.layers.0.self_attn.{module}.lora_{letter}.weight"


def pair(module: str = "q_proj", rank: int = 4, value: float = 0.5) -> Tensors:
    def matrix(*shape: int) -> tuple[str, tuple[int, ...], bytes]:
        return "F32", shape, np.full(shape, value, np.float32).tobytes()

    return {half(module, "A"): matrix(rank, 8), half(module, "B"): matrix(8, rank)}


BOTH: Tensors = {**pair("q_proj"), **pair("v_proj")}


def packed(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    return framed(json.dumps(header).encode(), b"".join(data for _, _, data in tensors.values()))


def framed(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def write_adapter(folder: Path, tensors: Tensors = BOTH, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | changes))
    (folder / "adapter_model.safetensors").write_bytes(packed(tensors, {"format": "pt"}))
    return folder
