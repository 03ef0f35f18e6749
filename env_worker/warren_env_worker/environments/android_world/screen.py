"""A device's screen: the pixels that its server sends, as a picture that fits into an episode.

A server sends each pixel as three numbers in JSON, some 30 MB for a phone. The picture is a JPEG of the width that
the config sets; places in it are places on the device by the same factor.
"""

import hashlib
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from warren.environment import Image

MAX_SCREEN_BYTES = 96 << 20
"""In JSON."""
QUALITY = 75


class NoScreen(Exception):
    """Not pixels of a screen."""


@dataclass(frozen=True, slots=True)
class Screen:
    width: int
    height: int
    """Of the picture."""
    factor: float
    """From the picture to the device."""
    image: Image
    digest: str
    """Of the device's own pixels."""

    def on_device(self, x: int, y: int) -> tuple[int, int] | None:
        """None for a place outside of the picture."""
        if not (x < self.width and y < self.height):
            return None
        return int((x + 0.5) * self.factor), int((y + 0.5) * self.factor)


def screen(content: bytes, max_width: int) -> Screen:
    """Raises `NoScreen`."""
    from PIL import Image as Pillow  # heavy: only for who plays this

    pixels = _pixels(content)
    height, width = pixels.shape[:2]
    shown_width = min(width, max_width)
    factor = width / shown_width
    size = (shown_width, max(1, round(height / factor)))
    file = io.BytesIO()
    Pillow.fromarray(pixels).resize(size).save(file, "JPEG", quality=QUALITY)
    digest = hashlib.blake2b(b"%d %d " % (width, height) + pixels.tobytes(), digest_size=16)
    return Screen(*size, factor, Image.of(file.getvalue()), digest.hexdigest())


def _pixels(content: bytes) -> NDArray[np.uint8]:
    try:
        told: Any = orjson.loads(content)
        pixels = np.array(told["pixels"])
    except (ValueError, TypeError, KeyError) as error:
        raise NoScreen from error
    is_picture = pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype.kind in "iu"
    if not is_picture or pixels.size == 0 or pixels.min() < 0 or pixels.max() > 255:
        raise NoScreen
    return pixels.astype(np.uint8)
