"""Guess a hidden number by its answers `<` and `>`: the smallest task of many turns.

The policy is shown `?` and says a number; then it is shown `<` (the hidden number is smaller) or `>`
(it is larger), until it has found the number or used up its guesses. With ten numbers and four
guesses, uniform guessing finds 34.5 %, random but consistent play 76.3 %, binary search all.

The reward comes with the last turn: 1 found, 0 not found, -0.5 for anything that is no number of
the range.
"""

import random

from warren.environment import ConfigError, Context, Env, StepResult


class Guess(Env):
    name = "guess"
    version = "1"
    isolation = "shared"

    def __init__(self, low: int = 0, high: int = 9, guesses: int = 4) -> None:
        """A number from `low` to `high`, both included, and `guesses` tries."""
        if not 0 <= low <= high:
            raise ConfigError(f"low and high must be 0 <= low <= high, not {low} and {high}")
        if guesses < 1:
            raise ConfigError(f"guesses must be at least 1, not {guesses}")
        self.low, self.high, self.n_left = low, high, guesses

    def reset(self, task: None, ctx: Context) -> str:
        self.hidden = ctx.rng.randint(self.low, self.high)
        return "?"

    def step(self, action: str) -> StepResult:
        self.n_left -= 1
        guess = self._read(action)
        if guess is None:
            return _over(-0.5, is_unreadable=True)
        if guess == self.hidden:
            return _over(1.0, is_exact=True)
        if self.n_left == 0:
            return _over(0.0)
        return StepResult("<" if self.hidden < guess else ">")

    def demonstrate(self, rng: random.Random) -> str:
        """Uniformly random: it shows what a guess looks like, not how to find the number."""
        return str(rng.randint(self.low, self.high))

    def _read(self, action: str) -> int | None:
        if not (action.isascii() and action.isdigit() and len(action) <= len(str(self.high))):
            return None
        guess = int(action)
        return guess if str(guess) == action and self.low <= guess <= self.high else None


def _over(reward: float, *, is_exact: bool = False, is_unreadable: bool = False) -> StepResult:
    metrics = {"exact": float(is_exact), "unreadable": float(is_unreadable)}
    return StepResult(reward=reward, done=True, metrics=metrics)
