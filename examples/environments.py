"""Four small environments: one turn or several, with data or without. Copy the one that is nearest.

warren up --env environments:Reverse --env environments:Capitals ...    # in this folder
warren env check environments:Reverse
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from warren import Env, StepResult
from warren.environment import ConfigError, Context


class Reverse(Env):
    """One turn, no data: spell a word backwards. `ctx.rng` makes the task."""

    name = "reverse"

    def __init__(self, letters: str = "abc", length: int = 3) -> None:
        self.letters, self.length = letters, length

    def reset(self, task: None, ctx: Context) -> str:
        self.word = "".join(ctx.rng.choices(self.letters, k=self.length))
        return f"{self.word}?"

    def step(self, action: str) -> StepResult:
        is_right = action == self.word[::-1]
        return StepResult(reward=float(is_right), done=True, metrics={"right": float(is_right)})

    def demonstrate(self, rng: random.Random) -> str:
        return self.word[::-1]


@dataclass(frozen=True)
class Question:
    question: str
    answer: str


class Capitals(Env[Question]):
    """One turn, with data: questions from a YAML file, which `tasks` reads once."""

    name = "capitals"

    def __init__(self, path: str = str(Path(__file__).parent / "data" / "capitals.yaml")) -> None:
        self.path = Path(path)

    def tasks(self, split: str) -> Sequence[Question]:
        splits = yaml.safe_load(self.path.read_text())
        if split not in splits:
            raise ConfigError(f"{self.path} has no split {split}; it has {', '.join(splits)}")
        return [Question(**row) for row in splits[split]]

    def reset(self, task: Question, ctx: Context) -> str:
        self.answer = task.answer
        return task.question

    def step(self, action: str) -> StepResult:
        return StepResult(reward=float(self.answer.lower() in action.lower()), done=True)

    def demonstrate(self, rng: random.Random) -> str:
        return self.answer


class Nim(Env):
    """Several turns, no data: take one to three stones by turns; who takes the last one wins."""

    name = "nim"

    def __init__(self, stones: int = 9) -> None:
        self.stones = stones

    def reset(self, task: None, ctx: Context) -> str:
        self.rng = ctx.member_rng  # the opponent's: different for each episode of a group
        return str(self.stones)

    def step(self, action: str) -> StepResult:
        if action not in ("1", "2", "3") or int(action) > self.stones:
            return StepResult(reward=-1.0, done=True)
        self.stones -= int(action)
        if self.stones == 0:
            return StepResult(reward=1.0, done=True)
        self.stones -= self.rng.randint(1, min(3, self.stones))
        if self.stones == 0:
            return StepResult(reward=-1.0, done=True)
        return StepResult(str(self.stones))

    def demonstrate(self, rng: random.Random) -> str:
        return str(self.stones % 4 or 1)  # who leaves a multiple of four wins


class Tutor(Capitals):
    """Several turns, with data: three tries, and a hint after each wrong one."""

    name = "tutor"

    def reset(self, task: Question, ctx: Context) -> str:
        self.n_tries = 0
        return super().reset(task, ctx)

    def step(self, action: str) -> StepResult:
        self.n_tries += 1
        if self.answer.lower() in action.lower():
            return StepResult(reward=1.0 / self.n_tries, done=True)
        if self.n_tries == 3:
            return StepResult(reward=0.0, done=True)
        return StepResult(f"No. It begins with {self.answer[: self.n_tries]}.")
