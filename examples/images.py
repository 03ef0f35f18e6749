"""An environment that shows images: a new square in each turn, and the question where it is.

warren up --base-model Qwen/Qwen2.5-VL-3B-Instruct --env images:Squares    # in this folder
warren env check images:Squares

The base model must be one that sees (docs/sampler.md). Images come as the bytes of PNG, JPEG or WebP
files, from whatever makes them; here a few lines write a PNG.
"""

import random
import struct
import zlib

from warren import Env, StepResult
from warren.environment import ChatMessage, Context, Image

CORNERS = ("top left", "top right", "bottom left", "bottom right")


class Squares(Env):
    """Several turns, no data: say in which corner the square is."""

    name = "squares"

    def __init__(self, turns: int = 2, side: int = 112) -> None:
        self.turns, self.side = turns, side

    def reset(self, task: None, ctx: Context) -> list[ChatMessage]:
        self.corners = ctx.rng.choices(CORNERS, k=self.turns)
        self.n_answered = 0
        return [self._show(f"Where is the square? Answer with one of: {', '.join(CORNERS)}.")]

    def step(self, action: str) -> StepResult:
        is_right = action.strip().lower().rstrip(".") == self.corners[self.n_answered]
        self.n_answered += 1
        if self.n_answered == self.turns:
            return StepResult(reward=is_right / self.turns, done=True)
        return StepResult(observation=[self._show("And here?")], reward=is_right / self.turns)

    def demonstrate(self, rng: random.Random) -> str:
        return self.corners[self.n_answered]

    def _show(self, question: str) -> ChatMessage:
        image = Image.of(square(self.corners[self.n_answered], self.side))
        return ChatMessage(role="user", content=question, images=(image,))


def square(corner: str, side: int) -> bytes:
    """A white square in one corner of a black picture, as a PNG file."""
    row, column = divmod(CORNERS.index(corner), 2)
    half = side // 2
    dark, light = bytes(side), bytes(column * half) + b"\xff" * half + bytes((1 - column) * half)
    rows = [light.ljust(side, b"\0") if y // half == row else dark for y in range(side)]
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + each for each in rows))
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
