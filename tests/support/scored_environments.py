"""Environments whose rewards follow from their config, and what they show does not: what was said in one is scored anew in another."""

import os
import time
from dataclasses import replace
from pathlib import Path

from tests.support.environments import Letters

from warren.environment import EpisodeTranscript, Limits, StepResult
from warren_env_worker.environments.guess import Guess

LOOK_S = 0.01


class Graded(Letters):
    """A turn's reward comes with the next one, and the last turn's with a grade of the whole."""

    name = "graded"

    def __init__(self, n_turns: int = 3, worth: float = 1.0, letters: str = "abcdefgh") -> None:
        super().__init__(n_turns, letters)
        self.worth = worth
        self.n_right = 0

    def step(self, action: str) -> StepResult:
        result = super().step(action)
        is_right = bool(result.reward)
        self.n_right += is_right
        named = {f"right_{self.n_taken}": float(is_right)}
        earlier = {self.n_taken - 1: self.worth * self.n_taken} if self.n_taken > 1 else {}
        return replace(result, reward=None, earlier=earlier, metrics=named)

    def score(self, transcript: EpisodeTranscript) -> dict[str, float]:
        return {"grade": self.worth * self.n_right}


class Priced(Guess):
    """Guess, at other prices; while the file `hold` is there nobody is told of his last guess."""

    name = "priced"
    limits = Limits(step_s=600.0)

    def __init__(self, exact: float = 1.0, missed: float = 0.0, hold: str = "") -> None:
        super().__init__()
        self.prices = {1.0: exact, 0.0: missed}
        self.hold = Path(hold) if hold else None

    def step(self, action: str) -> StepResult:
        result = super().step(action)
        if not result.done or result.reward is None:
            return result
        if self.hold is not None and self.hold.exists():
            self.hold.with_suffix(".reached").touch()
            while self.hold.exists():
                time.sleep(LOOK_S)
        return replace(result, reward=self.prices.get(result.reward, result.reward))


class Weighed(Priced):
    """Every guess earns what its letters weigh, so those of a policy that has learned nothing differ."""

    name = "weighed"

    def __init__(self, worth: float = 1.0, hold: str = "") -> None:
        super().__init__(hold=hold)
        self.worth = worth

    def step(self, action: str) -> StepResult:
        return replace(super().step(action), reward=self.worth * (sum(map(ord, action)) % 5))


def held_rank(responses: list[str], rewards: list[float]) -> list[float]:
    """Who said more than how many others; while the file of `RANK_HOLD` is there nobody is told."""
    hold = Path(os.environ["RANK_HOLD"])
    if hold.exists():
        hold.with_suffix(".reached").touch()
        while hold.exists():
            time.sleep(LOOK_S)
    return ranks(responses)


def ranks(responses: list[str]) -> list[float]:
    weights = [sum(map(ord, each)) for each in responses]
    return [sum(other < own for other in weights) / len(weights) for own in weights]


def weight(response: str, own_reward: float) -> float:
    return sum(map(ord, response)) % 5 / 10
