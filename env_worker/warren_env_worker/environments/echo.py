"""Say what you are shown: the smallest environment of all, for trying out a set-up.

The reward of a turn is 1 for the very word, else 0.
"""

import random

from warren.environment import ConfigError, Context, Env, StepResult

MOST_LETTERS = 100_000
"""Of one word: the process that says it is shared with others."""


class Echo(Env):
    name = "echo"
    version = "1"
    isolation = "shared"

    def __init__(self, letters: str = "0123456789", length: int = 1, turns: int = 1) -> None:
        """A word of `length` of these letters in each of `turns` turns."""
        if not letters or not 1 <= length <= MOST_LETTERS or turns < 1:
            raise ConfigError(
                f"letters must not be empty, length must be 1 to {MOST_LETTERS}, turns at least 1"
            )
        self.letters, self.length, self.n_left = letters, length, turns

    def reset(self, task: None, ctx: Context) -> str:
        self.rng = ctx.rng
        return self._next()

    def step(self, action: str) -> StepResult:
        is_exact = action == self.word
        self.n_left -= 1
        is_over = self.n_left == 0
        shown = "" if is_over else self._next()
        metrics = {"exact": float(is_exact)}
        return StepResult(shown, reward=float(is_exact), done=is_over, metrics=metrics)

    def demonstrate(self, rng: random.Random) -> str:
        return self.word

    def _next(self) -> str:
        self.word = "".join(self.rng.choices(self.letters, k=self.length))
        return self.word
