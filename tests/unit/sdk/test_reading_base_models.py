"""Base models on the user's machine: each thing that is wrong is told in a sentence that names the file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.adapters import framed, packed
from tests.support.uploaded_models import CONFIG, tensors_of, write_base_model, write_shards

import warren
from warren.base_models.reading import read_base_model
from warren_schemas.base_models.names import (
    folder_name,
    is_reference,
    is_seal_of,
    is_uploaded,
    new_name,
    seal_of,
)

BUILDS: list[dict[str, Any]] = [
    {},
    {"tie_word_embeddings": False},
    {"attention_bias": True},
    {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "mlp_bias": True},
    {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "head_dim": None},
    {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 9},
]


@pytest.mark.parametrize("changes", BUILDS)
def test_each_family_passes_with_the_tensors_of_its_config(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    folder = write_base_model(tmp_path, tensors_of(CONFIG | changes), **changes)
    names = [one.file.name for one in read_base_model(folder)]
    assert names[-1] == "model.safetensors" and len(names) == 4


def test_weights_may_lie_in_several_files(tmp_path: Path) -> None:
    assert len(read_base_model(write_shards(tmp_path))) == 6


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def written(name: str, data: bytes | str) -> Callable[[Path], None]:
    raw = data.encode() if isinstance(data, str) else data

    def write(folder: Path) -> None:
        (folder / name).write_bytes(raw)

    return write


def linked(folder: Path) -> None:
    (folder / "config.json").rename(folder.parent / "elsewhere.json")
    (folder / "config.json").symlink_to(folder.parent / "elsewhere.json")


def nested(folder: Path) -> None:
    (folder / "onnx").mkdir()


def configured(**changes: Any) -> Callable[[Path], None]:
    kept = {key: each for key, each in (CONFIG | changes).items() if each is not ...}
    return written("config.json", json.dumps(kept))


def weights(**changes: Any) -> Callable[[Path], None]:
    return written("model.safetensors", packed({**tensors_of(CONFIG), **changes}))


def without(name: str) -> bytes:
    tensors = tensors_of(CONFIG)
    del tensors[name]
    return packed(tensors)


NORM = "model.norm.weight"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (removed("config.json"), "config.json is missing"),
        (removed("tokenizer.json"), "tokenizer.json is missing"),
        (removed("model.safetensors"), "model.safetensors is missing"),
        (written("pytorch_model.bin", b"x"), "pytorch_model.bin: pickled weights"),
        (written("optimizer.pt", b"x"), "optimizer.pt: pickled weights"),
        (written("modeling_mine.py", "import os"), "modeling_mine.py: code"),
        (written("README.md", "hello"), "README.md: a base model has no such file"),
        (nested, "onnx is no file"),
        (linked, "config.json is a link"),
        (written("config.json", "{"), "config.json is not JSON"),
        (written("config.json", "[]"), "config.json must be a JSON object"),
        (written("generation_config.json", ""), "generation_config.json is not JSON"),
        (written("config.json", b" " * 2**20 + b"{}"), "config.json has 1048578 bytes"),
        (configured(auto_map={"AutoModel": "x.Y"}), "config.json: auto_map: code"),
        (
            written("tokenizer_config.json", '{"a": [{"trust_remote_code": true}]}'),
            "tokenizer_config.json: trust_remote_code: code",
        ),
        (configured(model_type="mamba"), "config.json: model_type is 'mamba'"),
        (configured(architectures=["Other"]), "architectures of qwen3 is [Qwen3ForCausalLM]"),
        (configured(quantization_config={}), "config.json: quantization_config: unknown key"),
        (configured(hidden_size=-8), "config.json: hidden_size"),
        (configured(hidden_size="8"), "config.json: hidden_size"),
        (configured(num_key_value_heads=...), "config.json: num_key_value_heads"),
        (configured(head_dim=None), "head_dim is missing"),
        (configured(layer_types=["full_attention"]), "layer_types must have an entry"),
        (configured(hidden_size=16), "by config.json"),
        (configured(num_hidden_layers=1), "is no tensor of Qwen3ForCausalLM"),
        (configured(num_hidden_layers=3), "11 tensors are missing"),
        (configured(tie_word_embeddings=False), "1 tensors are missing"),
        (weights(extra=("F32", (1,), b"abcd")), "extra is no tensor of Qwen3ForCausalLM"),
        (weights(**{NORM: ("F32", (4,), bytes(16))}), "has the shape [4], and by config.json [8]"),
        (weights(**{NORM: ("I64", (8,), bytes(64))}), f"model.safetensors: {NORM}.dtype"),
        (weights(**{NORM: ("F32", (8,), bytes(16))}), "and should have 32 bytes"),
        (written("model.safetensors", without(NORM)), f"for example {NORM}"),
        (written("model.safetensors", b"\x80\x04K\x00." * 9), "pickled files"),
        (written("model.safetensors", packed(tensors_of(CONFIG))[:-1]), "is the file whole?"),
        (written("model.safetensors", framed(b"{}")), "holds no tensors"),
        (written("model.safetensors", framed(b"{")), "its header is not JSON"),
        (
            written("model.safetensors", framed(b'{"a": ' * 5000)),
            "model.safetensors is no safetensors file",
        ),
        (written("model.safetensors.index.json", "{}"), "is for weights in several files"),
        (written("merges.txt", ""), "merges.txt is empty"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, spoil: Callable[[Path], None], reason: str) -> None:
    folder = write_base_model(tmp_path / "model")
    spoil(folder)
    with pytest.raises(warren.ConfigurationError) as refused:
        read_base_model(folder)
    assert reason in str(refused.value), str(refused.value)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (removed("model.safetensors.index.json"), "index.json is missing"),
        (removed("model-00001-of-00002.safetensors"), "model-00001-of-00001.safetensors"),
        (written("model.safetensors", b"x"), "and so are weights in several files"),
        (
            written("model.safetensors.index.json", '{"weight_map": {}}'),
            "weight_map is not where the tensors lie",
        ),
        (
            written("model-00002-of-00002.safetensors", packed(tensors_of(CONFIG))),
            "is in model-00001-of-00002.safetensors already",
        ),
    ],
)
def test_what_is_wrong_with_several_files_is_told(
    tmp_path: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    folder = write_shards(tmp_path)
    spoil(folder)
    with pytest.raises(warren.ConfigurationError) as refused:
        read_base_model(folder)
    assert reason in str(refused.value), str(refused.value)


def test_a_name_is_of_one_seal_and_says_nothing_else() -> None:
    seal = seal_of({"config.json": "a" * 64, "b": "c" * 64})
    assert seal.startswith(b"c" * 64 + b"  b\n")
    name, other = (new_name("f" * 64) for _ in range(2))
    assert name != other and is_uploaded(name) and not is_reference(name)
    assert not is_seal_of(name, seal)
    assert is_reference("@ann/mine@abcdef") and not is_uploaded("warren/tiny")
    for wrong in ("warren/tiny", "warren/uploaded-x", f"{name}/../../x", f"{name}\n"):
        with pytest.raises(ValueError, match="no name of an uploaded"):
            folder_name(wrong)
