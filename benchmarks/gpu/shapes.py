# pyright: reportUnknownMemberType=false
"""Models with random weights in the shapes of published ones, made where they are needed.

Their logits differ as much as a trained model's do (a standard deviation of 3), so that logprobs can
be told apart, and layers change what they are given by as much as it is, so that a token is no copy of
the last one (head and embeddings are tied); their tokenizer is that of `warren/tiny-lora`, whose 56 tokens are the first ones.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from warren_gpu_worker.base_models import load_tokenizer, resolve_base_models

TINY = "warren/tiny-lora"
EOS = 1
_LOGITS_STD = 3.0


@dataclass(frozen=True)
class Shape:
    width: int
    feed_forward: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    tied: bool
    head_size: int = 128
    vocabulary: int = 151_936
    context_length: int = 8192

    @property
    def n_matrix_parameters(self) -> int:
        """Of all layers, without embeddings and head: what every token is multiplied with."""
        attention = 2 * self.width * self.head_size * (self.n_heads + self.n_kv_heads)
        return self.n_layers * (attention + 3 * self.width * self.feed_forward)

    @property
    def n_parameters(self) -> int:
        return self.n_matrix_parameters + self.width * self.vocabulary * (1 if self.tied else 2)

    def training_flops(self, lengths: list[int], n_trained: int, *, full: bool) -> float:
        """What forward and backward need, recomputation not counted; the head sees trained tokens.

        A LoRA update has no gradient of the base model's weights. Attention is causal.
        """
        passes = 3 if full else 2
        matrices = 2 * self.n_matrix_parameters * sum(lengths)
        head = 2 * self.width * self.vocabulary * n_trained
        attention = 2 * self.n_layers * self.n_heads * self.head_size * sum(n * n for n in lengths)
        return float(passes * (matrices + head) + 3 * attention)


SHAPES = {
    "tiny": Shape(64, 96, 2, 4, 2, True, head_size=32, vocabulary=56, context_length=512),
    "qwen3-0.6b": Shape(1024, 3072, 28, 16, 8, True),
    "qwen3-1.7b": Shape(2048, 6144, 28, 16, 8, True),
    "qwen3-4b": Shape(2560, 9728, 36, 32, 8, True),
    "qwen3-8b": Shape(4096, 12288, 36, 32, 8, False),
}


def built(name: str, scratch: Path, device: str) -> str:
    """The folder of the model, made if it is not there; complete or absent."""
    folder = scratch / "models" / name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
        try:
            _make_model(SHAPES[name], device).save_pretrained(draft)
            tiny = resolve_base_models([TINY], scratch / "models")[TINY]
            load_tokenizer(tiny).save_pretrained(draft)
            os.rename(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return str(folder)


def config_of(shape: Shape, dtype: str) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.n_layers,
        num_attention_heads=shape.n_heads,
        num_key_value_heads=shape.n_kv_heads,
        head_dim=shape.head_size,
        max_position_embeddings=shape.context_length,
        tie_word_embeddings=shape.tied,
        pad_token_id=0,
        eos_token_id=EOS,
        bos_token_id=2,
        dtype=dtype,
    )


def _make_model(shape: Shape, device: str) -> Qwen3ForCausalLM:
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = Qwen3ForCausalLM(config_of(shape, str(dtype).removeprefix("torch.")))
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                module.weight.normal_(std=module.in_features**-0.5)
        cast("torch.nn.Linear", model.get_output_embeddings()).weight.normal_(
            std=_LOGITS_STD / shape.width**0.5
        )
    return model
