"""What an adapter's two files may hold, and with which words the others are refused."""

import io
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.adapters import BOTH, CONFIG, Tensors, framed, half, packed, pair

from warren_schemas.adapters.config import (
    AdapterConfig,
    BadAdapter,
    config_text,
    parsed_config,
    read_config,
)
from warren_schemas.adapters.weights import check_weights
from warren_schemas.base_models.safetensors_header import MAX_HEADER_BYTES

READ = AdapterConfig(rank=4, alpha=8.0, targets=("q_proj", "v_proj"), base_model="warren/tiny")


def check(data: bytes, config: AdapterConfig = READ) -> tuple[str, ...]:
    return check_weights(io.BytesIO(data), len(data), config)


def test_a_config_is_read() -> None:
    assert read_config(CONFIG) == READ


def test_what_is_kept_of_a_config_reads_the_same_and_holds_nothing_else() -> None:
    again = json.loads(config_text(READ, ("q_proj", "v_proj"), "warren/tiny"))
    assert read_config(again) == READ
    assert set(again) == {
        "base_model_name_or_path", "bias", "inference_mode", "lora_alpha", "peft_type", "r", "target_modules", "task_type",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"use_dora": True}, "use_dora: DoRA's magnitudes are not applied here"),
        ({"use_rslora": True}, "use_rslora: the scale alpha / sqrt"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save: whole modules"),
        ({"bias": "all"}, "bias: expected 'none', got 'all'"),
        ({"lora_bias": True}, "lora_bias: biases"),
        ({"rank_pattern": {"q_proj": 8}}, "rank_pattern: one rank"),
        ({"alpha_pattern": {"q_proj": 8}}, "alpha_pattern: one alpha"),
        ({"layers_to_transform": [0]}, "layers_to_transform: an adapter has to be on every layer"),
        ({"target_parameters": ["experts"]}, "target_parameters"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights: an adapter that starts like this"),
        ({"init_lora_weights": {"x": 1}}, "init_lora_weights"),
        ({"use_next_years_lora": True}, "use_next_years_lora: unknown key"),
        ({"peft_type": "IA3"}, "peft_type: expected 'LORA'"),
        ({"r": 0}, "r: "),
        ({"r": "4"}, "r: "),
        ({"r": 4096}, "r: "),
        ({"lora_alpha": -1}, "lora_alpha: "),
        ({"target_modules": [1]}, "target_modules"),
    ],
)
def test_a_feature_that_nobody_here_applies_is_refused_by_its_name(
    change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadAdapter) as refused:
        read_config({**CONFIG, **change})
    assert reason in str(refused.value)


@pytest.mark.parametrize("text", [b"{", b"[]", b"null", b" " * 300_000])
def test_what_is_no_config_at_all_is_refused(text: bytes) -> None:
    with pytest.raises(BadAdapter, match=r"adapter_config\.json"):
        parsed_config(text)


def test_pairs_of_the_named_modules_pass() -> None:
    assert check(packed(BOTH)) == ("q_proj", "v_proj")
    assert check(packed(BOTH, {"format": "pt"})) == ("q_proj", "v_proj")
    whole = READ.model_copy(update={"targets": ("self_attn.q_proj", "v_proj")})
    assert check(packed(BOTH), whole) == ("q_proj", "v_proj")
    assert check(packed(BOTH), READ.model_copy(update={"targets": ()})) == ("q_proj", "v_proj")


def with_number(dtype: str, bits: int) -> Tensors:
    size = 4 if dtype == "F32" else 2
    numbers = np.zeros(32, f"<u{size}")
    numbers[31] = bits
    return {
        half("q_proj", "A"): (dtype, (4, 8), numbers.tobytes()),
        half("q_proj", "B"): (dtype, (8, 4), bytes(32 * size)),
    }


@pytest.mark.parametrize(
    ("dtype", "largest", "infinity", "nan"),
    [
        ("F32", 0xFF7F_FFFF, 0x7F80_0000, 0xFFC0_0000),
        ("F16", 0xFBFF, 0x7C00, 0x7E00),
        ("BF16", 0xFF7F, 0x7F80, 0xFFC0),
    ],
)
def test_numbers_are_finite(dtype: str, largest: int, infinity: int, nan: int) -> None:
    config = READ.model_copy(update={"targets": ()})
    assert check(packed(with_number(dtype, largest)), config) == ("q_proj",)
    for bits in (infinity, nan):
        with pytest.raises(BadAdapter, match=r"lora_A\.weight holds numbers that are not finite"):
            check(packed(with_number(dtype, bits)), config)


def changed(name: str, **entry: Any) -> bytes:
    """A whole file, with an entry of its header that says something else."""
    data = packed(BOTH)
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header[name] |= entry
    return framed(json.dumps(header).encode(), data[8 + length :])


A = half("q_proj", "A")
WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is no safetensors file"),
    "pickled": (pickle.dumps({"a": [1.0] * 100}), "pickled files"),
    "header past the end": (b"\xff" * 8 + b"{}", "pickled files"),
    "huge header": (
        (MAX_HEADER_BYTES + 1).to_bytes(8, "little") + bytes(MAX_HEADER_BYTES + 9),
        "its header would have",
    ),
    "no JSON": (framed(b"nonsense"), "its header is not JSON"),
    "no object": (framed(b"[]"), "its header is no object"),
    "nothing": (framed(b"{}"), "holds no tensors"),
    "deep": (framed(b'{"' + A.encode() + b'":' + b"[" * 500 + b"]" * 500 + b"}"), "Recursion limit"),
    "path": (framed(b'{"../../etc/passwd": {}}'), "is no half of a LoRA"),
    "DoRA": (packed({**BOTH, A.replace("lora_A.weight", "lora_magnitude_vector"): ("F32", (1, 1), b"1234")}), "is no half"),
    "embedding": (packed({**BOTH, "base_model.model.embed.lora_embedding_A": ("F32", (1, 1), b"1234")}), "is no half"),
    "whole module": (packed({**BOTH, "base_model.model.lm_head.weight": ("F32", (1, 1), b"1234")}), "is no half"),
    "half": (packed({n: t for n, t in BOTH.items() if n != A}), "q_proj has no lora_A.weight"),
    "other rank": (packed({**BOTH, **pair("q_proj", rank=2)}), "so the rank 2, and r is 4"),
    "unnamed module": (packed({**BOTH, **pair("k_proj")}), "k_proj, which target_modules does not name"),
    "missing module": (packed(pair("q_proj")), "target_modules names v_proj"),
    "dtype": (changed(A, dtype="F64"), "dtype"),
    "shape": (changed(A, shape=[4, 2, 4]), "shape"),
    "negative": (changed(A, shape=[-4, -8]), "shape"),
    "text": (changed(A, shape=["4", 8]), "shape"),
    "more than there is": (changed(A, shape=[4, 2**30]), "should have"),
    "overlap": (changed(half("q_proj", "B"), data_offsets=[0, 128]), "lies at 0 to 128"),
    "extra key": (changed(A, file="/etc/passwd"), "file"),
    "cut off": (packed(BOTH)[:-4], "is the file whole?"),
    "more behind": (packed(BOTH) + b"1234", "is the file whole?"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_refused_with_the_reason(what: str) -> None:
    data, reason = WRONG[what]
    with pytest.raises(BadAdapter) as refused:
        check(data)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_file_that_ends_before_its_size_is_refused() -> None:
    data = packed(BOTH)
    with pytest.raises(BadAdapter, match="ends too early"):
        check_weights(io.BytesIO(data[:-8]), len(data), READ)


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
def test_no_bytes_raise_anything_else(data: bytes, length: int) -> None:
    for each in (data, framed(data), length.to_bytes(8, "little") + data):
        with pytest.raises(BadAdapter):
            check(each)
