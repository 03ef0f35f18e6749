"""Pixels of a device as a picture."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image as Pillow

from warren_env_worker.environments.android_world.screen import NoScreen, screen


def pixels(width: int, height: int) -> bytes:
    rng = np.random.default_rng(1)
    return json.dumps({"pixels": rng.integers(0, 256, (height, width, 3)).tolist()}).encode()


def test_a_large_screen_is_made_smaller_and_places_in_it_are_places_on_the_device() -> None:
    shown = screen(pixels(270, 600), max_width=90)
    picture = Pillow.open(io.BytesIO(base64.b64decode(shown.image.base64)))
    assert (shown.width, shown.height) == picture.size == (90, 200)
    assert shown.on_device(0, 0) == (1, 1)
    assert shown.on_device(89, 199) == (268, 598)
    assert shown.on_device(90, 0) is shown.on_device(0, 200) is None


def test_a_small_screen_keeps_its_size_and_the_same_pixels_are_the_same_picture() -> None:
    shown = screen(pixels(20, 40), max_width=90)
    assert (shown.width, shown.height) == (20, 40)
    assert shown.on_device(19, 39) == (19, 39)
    assert shown == screen(pixels(20, 40), max_width=90)
    assert shown.digest != screen(pixels(40, 20), max_width=90).digest


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"null", b"{}", b'{"pixels": []}', b'{"pixels": "x"}', b'{"pixels": [[1, 2, 3]]}',
        b'{"pixels": [[[1, 2]]]}', b'{"pixels": [[[1, 2, 300]]]}', b'{"pixels": [[[1, 2, -1]]]}',
        b'{"pixels": [[[1, 2, 0.5]]]}', b'{"pixels": [[[1, 2, 3]], []]}', b'{"pixels": [[[true, 2, null]]]}',
    ],
)  # fmt: skip
def test_what_is_no_screen_is_none(content: bytes) -> None:
    with pytest.raises(NoScreen):
        screen(content, max_width=90)
