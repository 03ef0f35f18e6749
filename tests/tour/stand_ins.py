"""The reader's own environment, which pages call `my_module:MyEnv`."""

import random

from warren import Env, StepResult
from warren.environment import Context


class MyEnv(Env):
    name = "my_env"

    def __init__(self, size: int = 9) -> None:
        self.size = size

    def reset(self, task: None, ctx: Context) -> str:
        self.number = ctx.rng.randrange(self.size)
        return f"{self.number} and one more?"

    def step(self, action: str) -> StepResult:
        return StepResult(reward=float(action == str(self.number + 1)), done=True)

    def demonstrate(self, rng: random.Random) -> str:
        return str(self.number + 1)
