"""An environment of one turn whose reward is chance: whatever random weights say, there is a gradient."""

import random

from warren.environment import Context, Env, StepResult


def digits(rng: random.Random) -> str:
    """What is asked."""
    return "".join(rng.choices("0123456789", k=24))


class Chance(Env):
    name = "chance"

    def reset(self, task: None, ctx: Context) -> str:
        self._rng = ctx.rng
        return digits(ctx.rng)

    def step(self, action: str) -> StepResult:
        return StepResult(reward=self._rng.random(), done=True)
