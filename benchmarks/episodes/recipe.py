"""The recipe that all sides follow, and what a side reports."""

import json
from dataclasses import asdict, dataclass
from typing import Self

WARMUP_STEPS = 60
WARMUP_EPISODES = 64
"""Demonstrations in one supervised step."""
WARMUP_LEARNING_RATE = 3e-3
WARMUP_RISE_STEPS = 20
WARMUP_FLOOR = 0.1
"""The rate rises over the first steps, and then falls linearly to this share of it."""

GROUP_SIZE = 16
GROUPS_PER_STEP = 4
EPISODES_PER_STEP = GROUP_SIZE * GROUPS_PER_STEP
STEPS_PER_ROUND = 4
"""Optimizer steps on the samples of one policy: 16 groups of 16, in four parts."""
EPISODES_PER_ROUND = EPISODES_PER_STEP * STEPS_PER_ROUND
LEARNING_RATE = 1.5e-3
RISE_STEPS = 20
BETA1, BETA2 = 0.9, 0.95
EPS = 1e-8
CLIP_NORM = 1.0
CLIP_LOW, CLIP_HIGH = 0.8, 1.28
"""Ratios of new to old probability between which a token counts."""

REWARD_WINDOW = 4 * EPISODES_PER_ROUND
"""The reward that a side reached is the mean of its last so many samples."""


@dataclass(frozen=True)
class Figures:
    """Of the reinforcement learning alone: neither imports nor SFT count."""

    n_samples: int
    cpu_s: float
    """Of all processes."""
    wall_s: float
    reward: float
    exact: float
    """Share of the last samples that were right to the end."""
    hosts_cpu_s: float = 0.0
    """Of the processes in which environments run, where there are any."""

    @property
    def samples_per_cpu_s(self) -> float:
        return self.n_samples / self.cpu_s

    @property
    def samples_per_s(self) -> float:
        return self.n_samples / self.wall_s

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Self:
        return cls(**json.loads(line))


def sft_learning_rate(step: int) -> float:
    """Of supervised step 0, 1, …"""
    rise = min(1.0, (step + 1) / WARMUP_RISE_STEPS)
    return WARMUP_LEARNING_RATE * rise * max(WARMUP_FLOOR, 1 - step / WARMUP_STEPS)
