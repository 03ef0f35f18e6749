"""Puzzles of Reasoning Gym, which are generated and scored without any data: one turn each.

Needs the package `reasoning-gym` (`pip install '.[reasoning]'` in your clone of Warren), and is offered when asked for:
`--env warren_env_worker.environments.reasoning_gym:ReasoningGym`. The task follows from the
seed, so no two tasks of a run are alike, and the split `test` has others than `train`.

The policy is asked to put its answer between `<answer>` and `</answer>`; the last one that it says
aloud counts, or all that it says where there is none. The reward is the dataset's own score, from 0
to 1, and 0 for an answer on which its scorer fails or runs out of time or memory (`timed_out`). A few datasets are refused, because their scorers raise, are not deterministic, reward every
answer or have no right one.
"""

import random
import re
from importlib import import_module
from typing import Any

from warren.environment import ConfigError, Context, Env, Limits, StepResult, TaskError
from warren_env_worker.environments.bounded_scoring import ScoringEnded, bounded_score
from warren_env_worker.environments.reasoning_gym_answers import harmless
from warren_schemas.chat.answer_text import spoken

UNFIT = {
    "boxnet": "it has no answer that scores 1",
    "codeio": "it is not deterministic",
    "composite": "it is made of other datasets; list those as environments with weights",
    "game_of_life_halting": "it rewards every answer",
    "graph_color": "it has no answer that scores 1",
    "prime_factorization": "its scorer fails on answers that are no numbers",
    "propositional_logic": "it has no answer that scores 1",
    "rubiks_cube": "it has no answer that scores 1",
    "rush_hour": "it has no answer that scores 1",
}
"""As seen with reasoning-gym 0.1.25."""

MAX_ANSWER_CHARS = 4096
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


class ReasoningGym(Env):
    name = "reasoning_gym"
    version = "1"
    single_turn = True
    limits = Limits(reset_s=120.0, step_s=120.0)

    def __init__(self, dataset: str, options: dict[str, Any] | None = None) -> None:
        """`dataset` by its name there, for example `basic_arithmetic`; `options` are its settings."""
        if dataset in UNFIT:
            raise ConfigError(f"{dataset} can't be trained on: {UNFIT[dataset]}")
        self.dataset = dataset
        self.options = options or {}
        self.category = dataset

    def system_prompt(self) -> str:
        return "Think first. Then give your answer between <answer> and </answer>."

    def reset(self, task: None, ctx: Context) -> str:
        gym = _gym()
        seed = ctx.rng.getrandbits(31)
        try:
            self.tasks_there = gym.create_dataset(self.dataset, size=1, seed=seed, **self.options)
        except (TypeError, ValueError, AssertionError) as error:
            raise ConfigError(f"{self.dataset} with {self.options}: {error}") from error
        self.entry: dict[str, Any] = self.tasks_there[0]
        return self.entry["question"]

    def step(self, action: str) -> StepResult:
        words = spoken(action)
        found = _ANSWER.findall(words)
        answer = (found[-1] if found else words).strip()[:MAX_ANSWER_CHARS]
        reward, is_over_limit = self._judged(harmless(self.dataset, answer))
        metrics = {
            "exact": float(reward >= 1.0),
            "answered": float(bool(found)),
            "timed_out": float(is_over_limit),
        }
        return StepResult(reward=reward, done=True, metrics=metrics)

    def _judged(self, answer: str) -> tuple[float, bool]:
        """The score, and whether making it took too much time or memory.

        An answer that the scorer can't take scores 0, where it can take the right one. Raises `TaskError`.
        """
        try:
            return bounded_score(lambda: self._score(answer)), False
        except ScoringEnded as end:
            self._check_right_answer()
            return 0.0, end.is_over_limit

    def _check_right_answer(self) -> None:
        try:
            bounded_score(lambda: self._score(self.entry["answer"]))
        except ScoringEnded as end:
            raise TaskError(f"{self.dataset} can't score its own right answer: {end}") from end

    def _score(self, answer: str) -> float:
        return float(self.tasks_there.score_answer(answer, self.entry))

    def demonstrate(self, rng: random.Random) -> str:
        return f"<answer>{self.entry['answer']}</answer>"


def _gym() -> Any:
    """Untyped, optional, and heavy: only who needs it."""
    try:
        return import_module("reasoning_gym")
    except ModuleNotFoundError as error:
        raise ConfigError("install the package reasoning-gym on the env worker") from error
