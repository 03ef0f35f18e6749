# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Sequences laid end to end give what padded ones do, and fill what a pass may have.

What is computed of them is compared with a plain float64 implementation wherever gradients are tested,
for trainers pack by default; here with padding, in what those tests leave out.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.support.base_models import base_folder
from tests.support.seeing_models import seeing_model
from tests.support.trainer import (
    LORA,
    SPECS,
    apply_all,
    done,
    engine_for,
    forward_backward,
    model_of,
    opened,
    optim_step,
    random_batch,
    relative_error,
)
from torch import Tensor, nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3Model,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from warren_gpu_worker.trainer.training.micro_batches import MicroBatch, micro_batches
from warren_gpu_worker.trainer.training.packing import (
    PackedRows,
    call_packed,
    causal_options,
    flash,
    has_flash,
    pack,
    prepare,
)
from warren_schemas.config import CrossEntropyLoss
from warren_schemas.training import ModelSpec

__all__ = ["base_folder", "seeing_model"]

LENGTHS = (30, 4, 9, 2, 17, 3)
SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def learned(folder: Path, scratch: Path, spec: ModelSpec, **options: object) -> dict[str, Tensor]:
    """The gradient of a second batch."""
    packs = bool(options.get("packs"))
    again = bool(options.get("checkpoint_activations"))
    dtype = str(options.get("dtype", "float32"))
    engine = opened(
        engine_for(folder, scratch, packs=packs, checkpoint_activations=again, dtype=dtype), spec
    )
    assert model_of(engine).network.packs == packs
    first = forward_backward(random_batch(9, LENGTHS), CrossEntropyLoss())
    second = forward_backward(random_batch(1, LENGTHS), logprobs=True)
    outcomes = apply_all(engine, [first, optim_step(), second])
    logprobs_N = done(outcomes[2]).logprobs_N
    assert logprobs_N is not None
    gradient = {n: p.grad for n, p in model_of(engine).parameters.items() if p.grad is not None}
    return gradient | {"logprobs": torch.from_numpy(logprobs_N.copy())}


def doubles(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.double() for name, tensor in tensors.items()}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("again", [False, True], ids=["kept", "computed-again"])
def test_packed_sequences_learn_what_padded_ones_do(
    base_folder: Path, tmp_path: Path, spec: ModelSpec, again: bool
) -> None:
    options = {"checkpoint_activations": again}
    padded = learned(base_folder, tmp_path, spec, packs=False, **options)
    packed = learned(base_folder, tmp_path, spec, packs=True, **options)
    assert relative_error(packed, doubles(padded)) <= 1e-6


@pytest.mark.parametrize("spec", SPECS)
def test_in_bfloat16_they_differ_by_no_more_than_that_is_worth(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    """Under autocast a norm's float32 weights make float32 queries beside bfloat16 values."""
    exact = doubles(learned(base_folder, tmp_path, spec, packs=False))
    padded = learned(base_folder, tmp_path, spec, packs=False, dtype="bfloat16")
    packed = learned(base_folder, tmp_path, spec, packs=True, dtype="bfloat16")
    assert relative_error(packed, exact) <= 1.5 * relative_error(padded, exact)


def test_text_of_a_model_that_sees_is_packed(seeing_model: str, tmp_path: Path) -> None:
    padded = learned(Path(seeing_model), tmp_path, LORA, packs=False)
    packed = learned(Path(seeing_model), tmp_path, LORA, packs=True)
    assert relative_error(packed, doubles(padded)) <= 3e-6


MODELS: list[tuple[Callable[[], PreTrainedModel], bool]] = [
    (lambda: LlamaForCausalLM(LlamaConfig(**SIZES)), True),
    (lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)), True),
    (lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=8)), True),
    (
        lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES, num_experts=4, num_experts_per_tok=2)),
        True,
    ),
    (lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=8)), False),
    (
        lambda: Qwen2ForCausalLM(
            Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=8, max_window_layers=1)
        ),
        False,
    ),
]


def hidden_of(decoder: nn.Module) -> Callable[[Tensor], Tensor]:
    return lambda ids_BT: cast(
        "Tensor", decoder(input_ids=ids_BT, use_cache=False).last_hidden_state
    )


@pytest.mark.parametrize(("make", "is_possible"), MODELS)
def test_a_model_is_packed_where_every_layer_sees_all_that_stands_before(
    make: Callable[[], PreTrainedModel], is_possible: bool
) -> None:
    torch.manual_seed(0)
    decoder = cast("nn.Module", make().eval().get_decoder())
    hidden_BTH, ids_BT = hidden_of(decoder), torch.arange(4)[None]
    longer_BT = torch.randint(64, (3, 20))
    with torch.no_grad():
        before_BTH = hidden_BTH(longer_BT)
        assert prepare(decoder, hidden_BTH, ids_BT) == is_possible
        assert torch.equal(hidden_BTH(longer_BT), before_BTH)
        if is_possible:
            lengths = (20, 5, 1)
            found = call_packed(decoder, pack(longer_BT, lengths))[0].split(lengths)
            for row_TH, expected_TH, n in zip(found, before_BTH, lengths, strict=True):
                torch.testing.assert_close(row_TH, expected_TH[:n], rtol=1e-5, atol=1e-5)


class DeafModel(Qwen3Model):
    """It takes any argument and passes none on; its attention would see all rows as one."""

    def forward(self, packed_rows: PackedRows | None = None, **inputs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(**inputs)


def test_a_decoder_that_keeps_the_rows_to_itself_is_not_packed() -> None:
    decoder = DeafModel(Qwen3Config(**SIZES, head_dim=8))
    with torch.no_grad():
        assert not prepare(decoder, hidden_of(decoder), torch.arange(4)[None])
    assert hidden_of(decoder)(torch.arange(4)[None]).shape == (1, 4, 32)


def split(lengths: tuple[int, ...], max_tokens: int, n_ranks: int = 1) -> list[list[MicroBatch]]:
    batch = random_batch(3, lengths)
    batch = batch.model_copy(update={"mask_N": np.ones_like(batch.mask_N)})
    return [
        list(
            micro_batches(
                batch,
                max_tokens=max_tokens,
                all_logprobs=False,
                device=torch.device("cpu"),
                rank=rank,
                n_ranks=n_ranks,
                packs=True,
            )
        )
        for rank in range(n_ranks)
    ]


def n_computed(rows: MicroBatch) -> int:
    return rows.input_ids_BT.numel() if rows.packed is None else rows.packed.ids_1P.numel()


def test_a_pass_is_filled_by_what_is_computed() -> None:
    (rows,) = split((31, 21, 11, 11, 11, 6), max_tokens=45)
    assert [n_computed(each) for each in rows] == [30, 20 + 10 + 10, 10 + 5]


def test_losses_of_packed_rows_are_not_laid_out_at_any_size() -> None:
    """They are padded, as one long row beside many short ones would make them large."""
    (rows,) = split((101, *[2] * 100), max_tokens=201)
    assert all(each.mask_BT.numel() <= 8 * 201 for each in rows)
    assert sum(int(each.mask_BT.sum()) for each in rows) == 200


def test_rows_of_one_length_stay_padded() -> None:
    (rows,) = split((9, 9, 9, 9), max_tokens=100)
    assert [each.packed for each in rows] == [None]


def test_ranks_have_equally_many_passes() -> None:
    shares = split((50, 40, 5, 4, 3), max_tokens=50, n_ranks=2)
    assert len(shares[0]) == len(shares[1])
    assert sum(int(rows.mask_BT.sum()) for share in shares for rows in share) == 97


def test_torchs_varlen_attention_is_asked_in_the_words_that_it_has() -> None:
    """torch 2.10 has another signature than later ones. None of it runs on a CPU."""

    def older(query: Tensor, *, is_causal: bool = False) -> None: ...
    def newer(
        query: Tensor, *, window_size: tuple[int, int] = (-1, -1), enable_gqa: bool = False
    ) -> None: ...

    assert causal_options(older, 2) == ({"is_causal": True}, False)
    assert causal_options(newer, 2) == ({"window_size": (-1, 0), "enable_gqa": True}, True)
    assert not has_flash(torch.zeros(1, 2, 3, 8, dtype=torch.bfloat16))


@pytest.mark.parametrize("scale", [None, 0.5])
@pytest.mark.parametrize("n_key_heads", [4, 2])
def test_flash_gives_what_sdpa_gives_of_each_row(scale: float | None, n_key_heads: int) -> None:
    """With something on the CPU that is called as torch's `varlen_attn` is."""
    lengths, generator = (5, 1, 3), torch.Generator().manual_seed(1)
    packed = pack(torch.arange(15).reshape(3, 5), lengths)
    query, key, value = (
        torch.randn(1, n_heads, sum(lengths), 8, generator=generator)
        for n_heads in (4, n_key_heads, n_key_heads)
    )
    found = flash((query, key, value), packed, scale, attention_by_borders)
    rows = zip(*(each.split(lengths, dim=2) for each in (query, key, value)), strict=True)
    expected = [
        nn.functional.scaled_dot_product_attention(
            *row, is_causal=True, scale=scale, enable_gqa=n_key_heads < 4
        )
        for row in rows
    ]
    assert torch.allclose(found, torch.cat(expected, dim=2).transpose(1, 2), atol=1e-6)


def attention_by_borders(
    query_PND: Tensor,
    key_PND: Tensor,
    value_PND: Tensor,
    borders: Tensor,
    borders_of_keys: Tensor,
    longest: int,
    longest_of_keys: int,
    *,
    window_size: tuple[int, int],
    enable_gqa: bool,
) -> Tensor:
    """Causal attention of each row, [P, N, D]."""
    assert window_size == (-1, 0) and longest == longest_of_keys == int(borders.diff().max())
    assert torch.equal(borders, borders_of_keys) and query_PND.is_contiguous()
    sizes = borders.diff().tolist()
    heads_first = (each.transpose(0, 1) for each in (query_PND, key_PND, value_PND))
    rows = zip(*(each.split(sizes, dim=1) for each in heads_first), strict=True)
    found = [
        nn.functional.scaled_dot_product_attention(*row, is_causal=True, enable_gqa=enable_gqa)
        for row in rows
    ]
    return torch.cat(found, dim=1).transpose(0, 1)
