# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (transformers leaves parts of its interface untyped)
"""Rows of a micro-batch laid end to end as one row, so that nothing is computed of padding.

Every layer but attention looks at one position at a time. Attention looks at the rows one by one: by
torch's FlashAttention for rows of different lengths on a GPU in half precision, else by one SDPA call
for each row.

Legend: B rows, T positions of the widest one, P positions of all rows, N heads, D features of one.

Invariants: a position sees those of its own row that stand before it, and no others; the hidden
states are those of padded rows, to the precision of the arithmetic. Decoders of which that can't be
shown when the model is made get padded rows.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import cast

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from warren_gpu_worker.trainer.training.gradient_checkpointing import layers_of
from warren_gpu_worker.trainer.training.sequence_parallel import SequenceShards

_ATTENTION = "warren_packed"
_TRIAL = (4, 3)
"""Lengths of the rows with which a decoder is tried."""


@dataclass(slots=True)
class PackedRows:
    """Positions refer to inputs."""

    ids_1P: Tensor
    positions_1P: Tensor
    """Of each token in its own row."""
    borders: Tensor
    """int32 [B + 1]: where rows begin, and where the last one ends."""
    lengths: tuple[int, ...]
    places: Tensor
    """Of each of the B x T padded positions among the P; anything for padding."""
    split: SequenceShards | None = None
    """Where each rank computes a part of the positions."""
    n_looks: int = field(default=0, compare=False)
    """How often attention has asked for the rows."""


def pack(ids_BT: Tensor, lengths: tuple[int, ...]) -> PackedRows:
    """The rows without what lies behind their lengths."""
    lengths_B = torch.tensor(lengths, device=ids_BT.device)
    positions_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device).expand_as(ids_BT)
    real_BT = positions_BT < lengths_B[:, None]
    return PackedRows(
        ids_1P=ids_BT[real_BT][None],
        positions_1P=positions_BT[real_BT][None],
        borders=nn.functional.pad(lengths_B.cumsum(0), (1, 0)).to(torch.int32),
        lengths=lengths,
        places=real_BT.flatten().cumsum(0) - 1,
    )


def call_packed(decoder: nn.Module, packed: PackedRows) -> Tensor:
    """Hidden states [1, P, H] of a decoder that was prepared; of the rank's own positions, where they are split."""
    split = packed.split
    output = decoder(
        input_ids=split.own(packed.ids_1P) if split else packed.ids_1P,
        position_ids=split.own(packed.positions_1P) if split else packed.positions_1P,
        use_cache=False,
        packed_rows=packed,
    )
    return cast("Tensor", output.last_hidden_state)


@torch.no_grad()
def prepare(decoder: nn.Module, hidden_BTH: Callable[[Tensor], Tensor], ids_BT: Tensor) -> bool:
    """Give the decoder attention that knows packed rows; whether it can be called with such.

    It is tried with a few tokens; one that can't stays as it is.
    """
    if not isinstance(decoder, PreTrainedModel) or not _sees_everything(decoder.config):
        return False
    before = decoder.config._attn_implementation  # pyright: ignore[reportPrivateUsage]
    if before != "sdpa":
        return False
    decoder.set_attn_implementation(_ATTENTION)
    if _is_right(decoder, hidden_BTH, ids_BT):
        return True
    decoder.set_attn_implementation(before)
    return False


def _sees_everything(config: PreTrainedConfig) -> bool:
    """Whether every layer sees all that stands before, and so needs no mask but the causal one."""
    kinds = cast("list[str] | None", getattr(config, "layer_types", None))
    if kinds is not None:
        return all(kind == "full_attention" for kind in kinds)
    return getattr(config, "sliding_window", None) is None


def _is_right(decoder: nn.Module, hidden_BTH: Callable[[Tensor], Tensor], ids_BT: Tensor) -> bool:
    ids_BT = ids_BT[:, : max(_TRIAL)].expand(len(_TRIAL), -1)
    packed = pack(ids_BT, _TRIAL)
    try:
        found = call_packed(decoder, packed)[0].split(_TRIAL)
        expected = [hidden_BTH(row[None, :n])[0] for row, n in zip(ids_BT, _TRIAL, strict=True)]
    except (TypeError, ValueError, RuntimeError):
        return False
    if packed.n_looks != len(layers_of(decoder)):
        return False  # somebody in between keeps the rows from attention
    tolerance = 0.05 * float(expected[0].abs().max())  # the dtype may be a coarse one
    pairs = zip(found, expected, strict=True)
    return all(torch.allclose(f, e, rtol=0.0, atol=tolerance) for f, e in pairs)


def _attention(
    module: nn.Module,
    query_BNTD: Tensor,
    key_BNTD: Tensor,
    value_BNTD: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    packed_rows: PackedRows | None = None,
    **others: object,
) -> tuple[Tensor, None]:
    """As transformers calls it; [B, T, N, D]. Without packed rows it is transformers' own for SDPA."""

    def row(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        arguments = (query, key, value, attention_mask, dropout, scaling)
        return sdpa_attention_forward(module, *arguments, **others)[0]  # pyright: ignore[reportArgumentType]

    if packed_rows is None:
        return row(query_BNTD, key_BNTD, value_BNTD), None
    packed_rows.n_looks += 1
    if others.get("position_bias") is not None or dropout:
        raise ValueError("attention with a bias or dropout can't be computed of packed rows")
    tensors = _as_autocast([query_BNTD, key_BNTD, value_BNTD])
    if packed_rows.split is None:
        return _of_rows(tensors, packed_rows, scaling, row), None
    tensors = [packed_rows.split.some_heads(tensor) for tensor in tensors]
    return packed_rows.split.own_positions(_of_rows(tensors, packed_rows, scaling, row)), None


AttentionInterface.register(_ATTENTION, _attention)


def _of_rows(
    tensors: list[Tensor],
    packed: PackedRows,
    scale: float | None,
    row: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Tensor:
    """Attention [1, P, N, D] of queries, keys and values; `row` is that of one."""
    if has_flash(tensors[0]) and (varlen := _varlen()) is not None:
        return flash((tensors[0], tensors[1], tensors[2]), packed, scale, varlen)
    queries, keys, values = (tensor.split(packed.lengths, dim=2) for tensor in tensors)
    return torch.cat([row(*each) for each in zip(queries, keys, values, strict=True)], dim=1)


def _as_autocast(tensors: list[Tensor]) -> list[Tensor]:
    """A norm with float32 weights in front of attention leaves queries and keys in float32."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return [tensor.to(dtype) for tensor in tensors]


def has_flash(query_BNTD: Tensor) -> bool:
    """Whether torch has FlashAttention for rows of different lengths, for tensors like this one."""
    is_half = query_BNTD.dtype in (torch.float16, torch.bfloat16)
    return query_BNTD.is_cuda and is_half and query_BNTD.shape[-1] <= 256 and bool(_varlen())


@cache
def _varlen() -> Callable[..., Tensor] | None:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # torch before 2.10
        return None
    return cast("Callable[..., Tensor]", varlen_attn)


def flash(
    tensors: tuple[Tensor, Tensor, Tensor],
    packed: PackedRows,
    scale: float | None,
    varlen: Callable[..., Tensor],
) -> Tensor:
    """Attention [1, P, N, D] of queries, keys and values [1, N, P, D] by torch's `varlen_attn`, or what is
    called like it; keys and values may have fewer heads."""
    query_1NPD, key_1NPD, value_1NPD = tensors
    n_groups = query_1NPD.shape[1] // key_1NPD.shape[1]
    default = query_1NPD.shape[-1] ** -0.5
    if scale is not None and scale != default:
        query_1NPD = query_1NPD * (scale / default)
    options, has_groups = causal_options(varlen, n_groups)
    if not has_groups:
        key_1NPD, value_1NPD = (repeat_kv(each, n_groups) for each in (key_1NPD, value_1NPD))
    query_PND, key_PND, value_PND = (
        each[0].transpose(0, 1).contiguous() for each in (query_1NPD, key_1NPD, value_1NPD)
    )
    longest = max(packed.lengths)
    borders = packed.borders, packed.borders, longest, longest
    return varlen(query_PND, key_PND, value_PND, *borders, **options)[None]


def causal_options(varlen: Callable[..., object], n_groups: int) -> tuple[dict[str, object], bool]:
    """What asks for causal attention, which torch has renamed; and whether keys may have fewer heads."""
    names = inspect.signature(varlen).parameters
    options: dict[str, object] = (
        {"window_size": (-1, 0)} if "window_size" in names else {"is_causal": True}
    )
    if "enable_gqa" in names:
        return options | {"enable_gqa": n_groups > 1}, True
    return options, False
