"""Small base models as `save_pretrained` writes them, right and wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.adapters import Tensors, packed

from warren_schemas.base_models.config import HEAD, read_config

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 7,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
}


def tensors_of(config: dict[str, Any], value: float = 0.5) -> dict[str, Any]:
    """As the config has them."""
    read = read_config(json.dumps(config).encode())
    shapes = read.shapes()
    if read.tie_word_embeddings:
        del shapes[HEAD]
    return {
        name: ("F32", shape, np.full(shape, value, np.float32).tobytes())
        for name, shape in shapes.items()
    }


def write_base_model(
    folder: Path, tensors: Tensors | None = None, value: float = 0.5, **changes: Any
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config = CONFIG | changes
    kept = {key: each for key, each in config.items() if each is not ...}
    (folder / "config.json").write_text(json.dumps(kept))
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": {}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<eos>"}))
    weights = packed(tensors_of(CONFIG, value) if tensors is None else tensors, {"format": "pt"})
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def write_shards(folder: Path) -> Path:
    """The same in two files and an index."""
    write_base_model(folder)
    (folder / "model.safetensors").unlink()
    named = sorted(tensors_of(CONFIG).items())
    halves = dict(named[:5]), dict(named[5:])
    where: dict[str, str] = {}
    for number, half in enumerate(halves, 1):
        file = f"model-{number:05}-of-00002.safetensors"
        (folder / file).write_bytes(packed(half))
        where |= dict.fromkeys(half, file)
    index = {"metadata": {"total_size": 1}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
