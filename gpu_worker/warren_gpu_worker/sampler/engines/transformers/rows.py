# pyright: reportUnknownMemberType=false
# (transformers leaves parts of its interface untyped)
"""Rows that decode together: their cached keys and values, and where each of them stands.

A batch has one cache of `length` columns; shorter rows are padded on the left, so that the next
token of every row goes into the same column. Rows with equal prompts are prefilled once.

Legend: `_B` rows, `_U` distinct prompts, `_T` columns, `_V` the vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from warren_gpu_worker.sampler.engines.port import Request
from warren_gpu_worker.sampler.engines.transformers.image_prompts import Pictures, image_prompts
from warren_gpu_worker.sampler.engines.transformers.token_sampling import RowSettings


@dataclass(slots=True)
class Batch:
    rows: list[Request]
    cache: DynamicCache
    length: int
    """Cached columns, padding included."""
    pad_B: Tensor
    """Columns of padding on the left of each row."""
    n_padded: int
    """The largest of them."""
    shift_B: Tensor
    """By how much positions differ from columns, padding aside: images take fewer than tokens."""
    settings_B: RowSettings

    def select(self, kept: list[int]) -> "Batch":
        """The batch of these rows only, without columns that only others needed."""
        kept_B = torch.tensor(kept, device=self.pad_B.device)
        pad_B = self.pad_B[kept_B]
        n_unused = int(pad_B.min()) if self.n_padded else 0
        for layer in _layers(self.cache):
            layer.keys = _held(layer.keys)[kept_B, :, n_unused:]
            layer.values = _held(layer.values)[kept_B, :, n_unused:]
        return Batch(
            rows=[self.rows[i] for i in kept],
            cache=self.cache,
            length=self.length - n_unused,
            pad_B=pad_B - n_unused,
            n_padded=self.n_padded and int(pad_B.max()) - n_unused,
            shift_B=self.shift_B[kept_B],
            settings_B=self.settings_B.select(kept_B),
        )

    def joined(self, other: "Batch") -> "Batch":
        """Both batches as one; neither may be used afterwards."""
        length = max(self.length, other.length)
        more_here, more_there = length - self.length, length - other.length
        for layer, newer in zip(_layers(self.cache), _layers(other.cache), strict=True):
            layer.keys = _stacked(layer.keys, more_here, newer.keys, more_there)
            layer.values = _stacked(layer.values, more_here, newer.values, more_there)
        return Batch(
            rows=self.rows + other.rows,
            cache=self.cache,
            length=length,
            pad_B=torch.cat([self.pad_B + more_here, other.pad_B + more_there]),
            n_padded=max(self.n_padded + more_here, other.n_padded + more_there),
            shift_B=torch.cat([self.shift_B, other.shift_B]),
            settings_B=self.settings_B.joined(other.settings_B),
        )


def prefill(model: PreTrainedModel, rows: Sequence[Request]) -> tuple[Batch, Tensor]:
    """Run the rows' prompts through the model; the new batch and its next logits (B, V)."""
    return _run(model, rows, [row.prompt_ids_T for row in rows])


def prefilled(model: PreTrainedModel, batch: Batch) -> Batch:
    """The batch with its cache computed anew: all but the last token of every row."""
    return _run(model, batch.rows, [_cached_ids(row) for row in batch.rows])[0]


def decode(model: PreTrainedModel, batch: Batch) -> Tensor:
    """Put each row's last token into the cache; the next logits (B, V)."""
    device = batch.pad_B.device
    last_B1 = torch.tensor([[row.ids[-1]] for row in batch.rows], device=device)
    positions_B1 = (batch.length - batch.pad_B + batch.shift_B)[:, None]
    batch.length += 1
    tokens = {"input_ids": last_B1, "position_ids": positions_B1}
    return _forward(model, tokens, batch)


def _cached_ids(row: Request) -> NDArray[np.int32]:
    return np.concatenate([row.prompt_ids_T, np.array(row.ids[:-1], np.int32)])


def _run(
    model: PreTrainedModel, rows: Sequence[Request], prompts_B: Sequence[NDArray[np.int32]]
) -> tuple[Batch, Tensor]:
    prompt_of_B, first_U = _distinct(rows, prompts_B)
    ids_UT, pad_U = _left_padded([prompts_B[i] for i in first_U])
    tokens, shift_U = model_inputs(model, ids_UT, pad_U, [rows[i].pictures for i in first_U])
    device = model.device
    settings_B = RowSettings.of(
        [row.sampling for row in rows],
        device,
        [row.mask_capacity is not None for row in rows],
        any_seed=any(row.options.seed is not None for row in rows),
    )
    batch = Batch(
        rows=list(rows),
        cache=DynamicCache(),
        length=ids_UT.shape[1],
        pad_B=torch.from_numpy(pad_U).to(device),
        n_padded=int(pad_U.max()),
        shift_B=shift_U,
        settings_B=settings_B,
    )
    logits_UV = _forward(model, tokens, batch)
    if len(first_U) < len(rows):
        logits_UV = logits_UV[_spread(batch, prompt_of_B)]
    return batch, logits_UV


def _distinct(
    rows: Sequence[Request], prompts_B: Sequence[NDArray[np.int32]]
) -> tuple[list[int], list[int]]:
    """Which prompt each row has, and the first row of each prompt."""
    places: dict[tuple[object, ...], int] = {}
    first_U = list[int]()
    prompt_of_B = list[int]()
    for index, (row, prompt) in enumerate(zip(rows, prompts_B, strict=True)):
        digests = tuple(placed.picture.digest for placed in row.pictures)
        place = places.setdefault((prompt.tobytes(), digests), len(places))
        if place == len(first_U):
            first_U.append(index)
        prompt_of_B.append(place)
    return prompt_of_B, first_U


def model_inputs(
    model: PreTrainedModel, ids_UT: np.ndarray, pad_U: np.ndarray, pictures_U: Sequence[Pictures]
) -> tuple[dict[str, Tensor], Tensor]:
    """What the model takes for these prompts, and the shift of each row's positions."""
    ids = torch.from_numpy(ids_UT).to(model.device)
    if any(pictures_U):
        prompts = image_prompts(model, ids, pad_U.tolist(), pictures_U)
        tokens = {"inputs_embeds": prompts.embeds_UTH, "position_ids": prompts.positions_3UT}
        return tokens, prompts.shift_U
    columns_T = torch.arange(ids_UT.shape[1])
    positions_UT = (columns_T - torch.from_numpy(pad_U)[:, None]).clamp(min=0).to(model.device)
    return {"input_ids": ids, "position_ids": positions_UT}, torch.zeros_like(positions_UT[:, 0])


def _forward(model: PreTrainedModel, tokens: dict[str, Tensor], batch: Batch) -> Tensor:
    """Run tokens that go into the last columns of the batch's cache; the next logits (B, V)."""
    mask_BT = None
    if batch.n_padded:
        columns_T = torch.arange(batch.length, device=batch.pad_B.device)
        mask_BT = columns_T >= batch.pad_B[:, None]
    output = model(
        **tokens,
        attention_mask=mask_BT,
        past_key_values=batch.cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return cast(Tensor, output.logits)[:, -1]


def _left_padded(prompts_U: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    lengths_U = np.array([prompt.size for prompt in prompts_U])
    length = int(lengths_U.max())
    ids_UT = np.zeros((len(prompts_U), length), np.int64)
    for ids_T, prompt in zip(ids_UT, prompts_U, strict=True):
        ids_T[length - prompt.size :] = prompt
    return ids_UT, length - lengths_U


def _spread(batch: Batch, prompt_of_B: list[int]) -> Tensor:
    """Give every row its own copy of its prompt's columns; returns where each came from."""
    from_B = torch.tensor(prompt_of_B, device=batch.pad_B.device)
    batch.pad_B = batch.pad_B[from_B]
    batch.shift_B = batch.shift_B[from_B]
    batch.cache.reorder_cache(cast(torch.LongTensor, from_B))
    return from_B


def _layers(cache: DynamicCache) -> list[DynamicLayer]:
    return cast("list[DynamicLayer]", cache.layers)


def _held(tensor: Tensor | None) -> Tensor:
    assert tensor is not None, "a batch has been through the model"
    return tensor


def _stacked(here: Tensor | None, more_here: int, there: Tensor | None, more_there: int) -> Tensor:
    """Two caches (B, heads, T, size), each with more columns on its left, one above the other."""
    return torch.cat([_widened(_held(here), more_here), _widened(_held(there), more_there)])


def _widened(cached: Tensor, n_more: int) -> Tensor:
    return F.pad(cached, (0, 0, n_more, 0)) if n_more else cached
