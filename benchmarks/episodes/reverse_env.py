"""The task as an environment: `warren env-worker --env benchmarks.episodes.reverse_env:Reverse`."""

import random

from benchmarks.episodes import task as reversing

from warren.environment import Context, Env, StepResult


class Reverse(Env):
    name = "reverse"

    def reset(self, task: None, ctx: Context) -> str:
        self.asked = reversing.question(ctx.rng)
        return self.asked

    def step(self, action: str) -> StepResult:
        return StepResult(
            reward=reversing.reward(self.asked, action),
            done=True,
            metrics={"exact": float(action == reversing.answer(self.asked))},
        )

    def demonstrate(self, rng: random.Random) -> str:
        return reversing.answer(self.asked)


class SharedReverse(Reverse):
    """The same with all episodes in one process."""

    isolation = "shared"
