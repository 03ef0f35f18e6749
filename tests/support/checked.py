"""Environments that `warren env check` must find at fault, each for one thing."""

import random
import time

from warren.environment import Context, Env, Limits, StepResult


class Fine(Env):
    def reset(self, task: None, ctx: Context) -> str:
        self.word = "".join(ctx.rng.choices("abc", k=8))
        return f"Spell backwards: {self.word[::-1]}"

    def step(self, action: str) -> StepResult:
        return StepResult(reward=float(action == self.word), done=True)

    def demonstrate(self, rng: random.Random) -> str:
        return self.word


class Leaky(Fine):
    def reset(self, task: None, ctx: Context) -> str:
        return f"{super().reset(task, ctx)} (it is {self.word})"


class GlobalChance(Fine):
    def reset(self, task: None, ctx: Context) -> str:
        super().reset(task, ctx)
        return f"{self.word} {random.random()}"


class Generous(Fine):
    def step(self, action: str) -> StepResult:
        return StepResult(reward=1.0, done=True)


class Fragile(Fine):
    def step(self, action: str) -> StepResult:
        float(action[0] == "a")
        return super().step(action)


class Slow(Fine):
    limits = Limits(step_s=0.4)

    def step(self, action: str) -> StepResult:
        time.sleep(0.21)
        return super().step(action)


class Hanging(Fine):
    limits = Limits(reset_s=0.2)

    def reset(self, task: None, ctx: Context) -> str:
        time.sleep(3600)
        return ""


class Hoarding(Fine):
    kept: list[bytes] = []  # noqa: RUF012 - that is the point

    def reset(self, task: None, ctx: Context) -> str:
        self.kept.append(random.Random(0).randbytes(2 * 1024 * 1024))
        return super().reset(task, ctx)


class Unscored(Fine):
    async def step(self, action: str) -> StepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        return StepResult(reward=float("nan"), done=True)
