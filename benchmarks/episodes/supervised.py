# pyright: reportUnknownMemberType=false
# (torch and transformers leave parts of their interfaces untyped)
"""The model of the sides that are not Warren: Warren's tiny base model, warmed up as Warren does.

Legend: `_B` sequences, `_T` tokens.
"""

import random
from pathlib import Path
from typing import cast

import torch
from benchmarks.episodes import recipe, task
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3ForCausalLM


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    return cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(folder))


def warmed_up(folder: Path, tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """The base model after the recipe's supervised steps."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM.from_pretrained(folder)
    optimizer = make_optimizer(model)
    rng = random.Random(f"SFT/{seed}")
    for step in range(recipe.WARMUP_STEPS):
        asked = [task.question(rng) for _ in range(recipe.WARMUP_EPISODES)]
        _mean_loss(model, tokenizer, asked).backward()
        apply(optimizer, model, recipe.sft_learning_rate(step))
    return model


def make_optimizer(model: Qwen3ForCausalLM) -> torch.optim.AdamW:
    betas = (recipe.BETA1, recipe.BETA2)
    return torch.optim.AdamW(model.parameters(), betas=betas, eps=recipe.EPS, weight_decay=0.0)


def apply(optimizer: torch.optim.AdamW, model: Qwen3ForCausalLM, learning_rate: float) -> None:
    torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.CLIP_NORM)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    optimizer.zero_grad()


def prompt_text(tokenizer: PreTrainedTokenizerFast, asked: str) -> str:
    """As the model's chat template renders it."""
    return f"{tokenizer.bos_token}{asked}"


def encode(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Tensor:
    """Token ids (B, T) of texts of one length."""
    return torch.tensor(tokenizer(texts, add_special_tokens=False)["input_ids"])


def _mean_loss(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, asked: list[str]
) -> Tensor:
    """Mean negative log-likelihood of the answers and the ends of their turns."""
    texts = [
        f"{prompt_text(tokenizer, question)}{task.answer(question)}{tokenizer.eos_token}"
        for question in asked
    ]
    ids_BT = encode(tokenizer, texts)
    logits_BTV = cast(Tensor, model(input_ids=ids_BT[:, :-1]).logits)[:, -task.MAX_TOKENS :]
    return F.cross_entropy(logits_BTV.flatten(0, 1), ids_BT[:, -task.MAX_TOKENS :].flatten())
