# pyright: reportUnknownMemberType=false
"""A LoRA adapter with random weights for a shape, made without its model."""

from dataclasses import replace
from pathlib import Path

import torch
from benchmarks.gpu.shapes import SHAPES, config_of
from peft import LoraConfig, get_peft_model
from transformers import Qwen3ForCausalLM

from warren_gpu_worker.weights import view_policy, write_policy

RANK = 32


def written(shape: str, scratch: Path) -> str:
    """The folder of the adapter, on all linear layers."""
    folder = scratch / "adapters" / shape
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with torch.device("meta"):
            model = Qwen3ForCausalLM(config_of(SHAPES[shape], "float32"))
            targets = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")
            policy = view_policy(get_peft_model(model, targets))  # pyright: ignore[reportArgumentType]
        random = {name: 0.01 * torch.randn(t.shape) for name, t in policy.tensors.items()}
        write_policy(replace(policy, tensors=random), folder.as_uri())
    return str(folder)
