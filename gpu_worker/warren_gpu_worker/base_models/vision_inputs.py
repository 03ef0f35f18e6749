# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (transformers leaves parts of its interface untyped)
"""What a vision-language model sees of an image: pixels, and tokens that stand for them.

Invariant: every engine takes its pixels from here, so all sides of a run see the same numbers. The
processing is transformers' own on Pillow; torchvision, which rounds differently, need not be there.

Legend: `_PD` patches of one image and the numbers of each; `_T` tokens of one sequence; `_3T` their
positions in time, rows and columns.
"""

import hashlib
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from warren_gpu_worker.base_models.families import SEEING

MAX_PIXELS = 1 << 24
"""A larger image is refused before it is decoded; a file of a few bytes may hold any number."""
_FORMATS = ("PNG", "JPEG", "WEBP")
_BROKEN = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    struct.error,
    zlib.error,
    Pillow.DecompressionBombError,
    Pillow.DecompressionBombWarning,
)
"""What Pillow raises at files that are not what they say."""


class NoVision(ValueError):
    """The model can't be shown images; says why."""


class ImageUnusable(ValueError):
    """This image can't be shown to the model; says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """An image as the model takes it."""

    digest: str
    """Of the file."""
    pixels_PD: NDArray[np.float32]
    grid: tuple[int, int, int]
    """Patches in time, rows and columns."""
    merge: int
    """So many patches along a side become one token."""

    @property
    def places(self) -> tuple[int, int, int]:
        """Tokens in time, rows and columns."""
        n_times, n_rows, n_columns = self.grid
        return n_times, n_rows // self.merge, n_columns // self.merge

    @property
    def n_tokens(self) -> int:
        n_times, n_rows, n_columns = self.places
        return n_times * n_rows * n_columns


@dataclass(frozen=True, slots=True)
class Placed:
    """An image and where its tokens begin in a prompt."""

    start: int
    picture: Picture


class VisionInputs:
    """The eyes of the model in `folder`. Raises `NoSight`."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoConfig
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
            Qwen2VLImageProcessorPil,
        )

        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        _check_family(str(config.model_type), getattr(config, "vision_config", None) is not None)
        try:
            self._processor = Qwen2VLImageProcessorPil.from_pretrained(
                folder, local_files_only=True
            )
        except OSError as error:
            raise NoVision(f"its folder says nothing about images: {error}") from error
        self.model_type = str(config.model_type)
        self.image_token = int(config.image_token_id)

    @property
    def max_tokens(self) -> int:
        """Most tokens of one image."""
        processor = self._processor
        side = int(processor.patch_size) * int(processor.merge_size)
        return max(1, int(processor.size["longest_edge"]) // side**2)

    def see(self, file: bytes) -> Picture:
        """The image in a PNG, JPEG or WebP file. Raises `ImageUnusable`."""
        try:
            seen = self._processor(images=[_decoded(file)], return_tensors="np")
        except ImageUnusable:
            raise
        except _BROKEN as error:
            raise ImageUnusable(f"it can't be read: {error}") from error
        n_times, n_rows, n_columns = cast("list[int]", seen["image_grid_thw"][0].tolist())
        pixels_PD = cast("NDArray[np.float32]", seen["pixel_values"])
        digest = hashlib.sha256(file).hexdigest()
        merge = int(self._processor.merge_size)
        return Picture(digest, pixels_PD, (n_times, n_rows, n_columns), merge)


def positions(n_tokens: int, placed: Sequence[Placed]) -> NDArray[np.int64]:
    """Where tokens (3, T) stand; text counts on behind the longer side of an image before it.

    This is the multimodal rotary embedding of Qwen2-VL (arXiv:2409.12191, section 2.1). What comes
    after these tokens stands behind the largest of the positions.
    """
    parts, at, place = list[NDArray[np.int64]](), 0, 0
    for each in placed:
        parts.append(_text(each.start - at) + place)
        place += each.start - at
        _, n_rows, n_columns = each.picture.places
        parts.append(np.indices(each.picture.places).reshape(3, -1) + place)
        place += max(n_rows, n_columns)
        at = each.start + each.picture.n_tokens
    parts.append(_text(n_tokens - at) + place)
    return np.concatenate(parts, axis=1)


def _text(n_tokens: int) -> NDArray[np.int64]:
    return np.broadcast_to(np.arange(n_tokens), (3, n_tokens))


def _check_family(model_type: str, has_vision: bool) -> None:
    if model_type in SEEING:
        return
    if has_vision:
        families = " and ".join(SEEING)
        raise NoVision(f"it is of the type {model_type}; images are understood for {families}")
    raise NoVision("it reads text alone")


def _decoded(file: bytes) -> Pillow.Image:
    with Pillow.open(BytesIO(file), formats=_FORMATS) as opened:
        n_pixels = opened.width * opened.height
        if n_pixels > MAX_PIXELS:
            raise ImageUnusable(f"it has {n_pixels} pixels; {MAX_PIXELS} can be shown")
        return opened.convert("RGB")
