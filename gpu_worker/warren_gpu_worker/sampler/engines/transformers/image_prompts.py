# pyright: reportUnknownMemberType=false
# (transformers leaves parts of its interface untyped)
"""Prompts with images for a transformers model: embeddings in place of tokens, and positions.

Images are put where the request says, not wherever the image token stands: the policy may have
sampled that token itself.

Legend: `_U` distinct prompts, `_T` columns, `_H` the hidden size, `_3UT` positions in time, rows
and columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from warren_gpu_worker.base_models.vision_inputs import Placed, positions

Pictures = tuple[Placed, ...]


class _Features(Protocol):
    pooler_output: Sequence[Tensor]


class _Seeing(Protocol):
    def get_image_features(self, pixel_values: Tensor, image_grid_thw: Tensor) -> _Features: ...


@dataclass(frozen=True, slots=True)
class Shown:
    embeds_UTH: Tensor
    positions_3UT: Tensor
    shift_U: Tensor
    """By how much the positions of what follows differ from the number of tokens before it."""


def image_prompts(
    model: PreTrainedModel, ids_UT: Tensor, pad_U: Sequence[int], pictures_U: Sequence[Pictures]
) -> Shown:
    """Prompts, padded on the left, as their model takes them."""
    embeds_UTH = cast(nn.Embedding, model.get_input_embeddings())(ids_UT)
    features = iter(_features(model, [p for pictures in pictures_U for p in pictures]))
    n_columns = ids_UT.shape[1]
    positions_3UT = np.zeros((3, *ids_UT.shape), np.int64)
    shift_U = np.zeros(len(pictures_U), np.int64)
    for row, (pad, pictures) in enumerate(zip(pad_U, pictures_U, strict=True)):
        for each in pictures:
            begin = pad + each.start
            embeds_UTH[row, begin : begin + each.picture.n_tokens] = next(features)
        n_tokens = n_columns - pad
        positions_3UT[:, row, pad:] = own = positions(n_tokens, pictures)
        shift_U[row] = own.max() + 1 - n_tokens
    device = ids_UT.device
    where, shift = torch.from_numpy(positions_3UT), torch.from_numpy(shift_U)
    return Shown(embeds_UTH, where.to(device), shift.to(device))


def _features(model: PreTrainedModel, placed: Sequence[Placed]) -> Sequence[Tensor]:
    """The vision tower's output for each image (tokens, H)."""
    pixels = np.concatenate([each.picture.pixels_PD for each in placed])
    grids = torch.tensor([each.picture.grid for each in placed], device=model.device)
    seeing = cast(_Seeing, model)
    pixels = torch.from_numpy(pixels).to(model.device)
    return seeing.get_image_features(pixels, grids).pooler_output
