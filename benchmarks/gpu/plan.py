"""The steps, in the order of what they are worth: what comes first is measured if little time is left.

Invariant: a step's name says all that it needs to know, so another call can go on with it.
"""

from dataclasses import dataclass
from typing import Literal

Update = Literal["lora", "full"]

CALL_S = 570.0
"""How long one call runs by default; where one may take ten minutes, this leaves time to write."""
N_CALLS = 3
"""So many calls are enough for all that is marked `needed`."""


@dataclass(frozen=True)
class Step:
    name: str
    """`KIND` or `KIND SHAPE WORDS…`"""
    expected_s: float
    """Not begun with less time than this."""
    limit_s: float
    """Killed after so long."""
    needed: bool = True
    """Whether it counts to what `N_CALLS` calls must do."""

    @property
    def kind(self) -> str:
        return self.name.split()[0]

    @property
    def words(self) -> list[str]:
        return self.name.split()[1:]


SHAPES = ("qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b")
_SLOWER = {"tiny": 1.0, "qwen3-0.6b": 1.0, "qwen3-1.7b": 1.2, "qwen3-4b": 1.5, "qwen3-8b": 1.8}
WAYS = ("own", "warren")
"""Who samples: vLLM as its users start it, Warren's sampler."""
_FULL_TOO_LARGE = ("qwen3-8b",)
"""Weights, gradient and Adam's state in float32 don't fit into one GPU."""


def updates_of(shape: str) -> tuple[Update, ...]:
    return ("lora",) if shape in _FULL_TOO_LARGE else ("lora", "full")


def plan(shapes: tuple[str, ...] = SHAPES) -> list[Step]:
    first, *others = shapes
    return [
        Step("machine", 20, 60),
        Step(f"start {first}", 40, 150),
        *_exactness(first),
        *_measures(first, needed=("lora", "full")),
        *(step for shape in others for step in _others(shape)),
    ]


def _exactness(shape: str) -> list[Step]:
    pairs = (("lora", "bfloat16"), ("full", "bfloat16"), ("lora", "float32"), ("full", "float32"))
    steps = [Step(f"exactness {shape} {u} {d}", 45, 120) for u, d in pairs]
    return [*steps, Step(f"sleep {shape}", 45, 120), Step("images", 30, 90)]


def _others(shape: str) -> list[Step]:
    """Of shapes after the first; the time to a new version's first token is exactness's."""
    slower = _SLOWER[shape]
    update = Step(f"exactness {shape} lora bfloat16", 45 * slower, 120 * slower)
    return [*_measures(shape, needed=("lora",)), update]


def _measures(shape: str, needed: tuple[Update, ...]) -> list[Step]:
    """In this order: of the updates first, for they need no vLLM."""
    slower = _SLOWER[shape]
    updates = [Step(f"update {shape} {u}", 30 * slower, 90 * slower) for u in updates_of(shape)]
    sampling = [
        Step(f"sampling {shape} {update} {way}", 50 * slower, 130 * slower, update in needed)
        for update in updates_of(shape)
        for way in WAYS
    ]
    is_first = len(needed) > 1
    runs = [
        Step(f"{trainer} {shape} {update}", 70 * slower, 150 * slower, is_first and is_needed)
        for update in updates_of(shape)
        for trainer, is_needed in (("grpo", True), ("trl_grpo", update == "lora"))
    ]
    return [*updates, *sampling, *runs]
