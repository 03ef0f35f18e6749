"""An environment of one turn whose reward is chance: whatever random weights say, there is a gradient."""

from warren.environment import Context, Env, StepResult


class Chance(Env):
    name = "chance"

    def reset(self, task: None, ctx: Context) -> str:
        self._rng = ctx.rng
        return "".join(ctx.rng.choices("0123456789", k=24))

    def step(self, action: str) -> StepResult:
        return StepResult(reward=self._rng.random(), done=True)
