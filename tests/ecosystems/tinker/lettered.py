# pyright: reportUnknownVariableType=false
# (safetensors leaves parts of its interface untyped)
"""A tiny model that reads every letter of ASCII, and as much as the longest game of a recipe says."""

import json
import shutil
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

CONTEXT_LENGTH = 4096
EMBEDDING = "model.embed_tokens.weight"


def build_lettered(tiny: Path, folder: Path, words: Sequence[str] = ()) -> None:
    """`tiny`, whose tokenizer knows small letters alone, with more letters and with these words, a token each, and
    embeddings that are drawn anew."""
    shutil.copytree(tiny, folder)
    n_tokens = _add_tokens(folder / "tokenizer.json", words)
    _set(folder / "tokenizer_config.json", model_max_length=CONTEXT_LENGTH)
    _set(folder / "config.json", vocab_size=n_tokens, max_position_embeddings=CONTEXT_LENGTH)
    weights = load_file(folder / "model.safetensors")
    drawn = np.random.default_rng(0).normal(0, 0.02, (n_tokens, weights[EMBEDDING].shape[1]))
    weights[EMBEDDING] = drawn.astype(np.float32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _add_tokens(path: Path, words: Sequence[str]) -> int:
    """How many tokens there are then."""
    tokenizer: dict[str, Any] = json.loads(path.read_text())
    known: dict[str, int] = tokenizer["model"]["vocab"]
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    new = [*sorted({*string.printable} - {*known}), *words]
    for number, content in enumerate(new, start=len(known)):
        added = {"id": number, "content": content, "normalized": True}
        tokenizer["added_tokens"].append(added | plain)
    path.write_text(json.dumps(tokenizer))
    return len(known) + len(new)


def _set(path: Path, **values: int) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
