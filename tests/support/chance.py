"""An environment for runs that go wrong: nothing can be learned from it, and each step makes an update."""

import random

from warren.environment import Context, Env, StepResult


class Chance(Env):
    """Rewards by the toss of a coin, whatever is said, and may fail by one."""

    name = "chance"
    isolation = "shared"
    replayable = False

    def __init__(self, n_turns: int = 1, failing: float = 0.0) -> None:
        self.n_left = n_turns
        self.failing = failing

    def reset(self, task: None, ctx: Context) -> str:
        if random.random() < self.failing:
            raise RuntimeError("it broke")
        return "?"

    def step(self, action: str) -> StepResult:
        self.n_left -= 1
        return StepResult("?", reward=float(random.random() < 0.5), done=self.n_left == 0)
