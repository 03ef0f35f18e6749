"""Environments that stand still for as long as a file is there, so that a test may kill somebody meanwhile."""

import time
from pathlib import Path

from warren.environment import Context, Env, Limits, StepResult

LOOK_S = 0.01
N_TURNS = 3


class Held(Env):
    """Shows numbers, and rewards digits. While the file `hold` is there nobody is told of the next one."""

    name = "held"
    isolation = "episode"
    limits = Limits(step_s=600.0)

    def __init__(self, hold: str) -> None:
        self.hold = Path(hold)
        self.n_taken = self.n_digits = 0

    def reset(self, task: None, ctx: Context) -> str:
        self.numbers = [str(ctx.rng.randrange(1000)) for _ in range(N_TURNS)]
        return self.numbers[0]

    def step(self, action: str) -> StepResult:
        self.n_taken += 1
        self.n_digits += sum(letter.isdigit() for letter in action)
        if self.n_taken == N_TURNS:
            return StepResult(reward=float(self.n_digits), done=True)
        if self.hold.exists():
            self.hold.with_suffix(".reached").touch()
            while self.hold.exists():
                time.sleep(LOOK_S)
        return StepResult(self.numbers[self.n_taken])
