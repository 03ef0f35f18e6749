"""Answer a question of arithmetic: one turn, with questions from a parquet file.

The file has the columns `question` (text, shown as it is, for example `12+7=`) and `answer` (a whole
number, or its decimal digits). Without a path, the file that lies beside this module is used: sums
of two numbers below 100, no question in both splits.

The reward is 1 for the answer, else 0.2 times the share of its digits that stand in the right place
counted from the right, else 0. The number of its digits is the category. Every message but a whole number in decimal digits gets 0.
"""

import random
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from warren.environment import ConfigError, Context, Env, StepResult
from warren_env_worker.permissions.permissions import current

COLUMNS = ("question", "answer")
PARTIAL_REWARD = 0.2
_WHOLE = re.compile(r"-?[0-9]{1,1000}")
SHIPPED = str(Path(__file__).with_name("arithmetic-{split}.parquet"))


class Problem(NamedTuple):
    question: str
    answer: str


class Arithmetic(Env[Problem]):
    name = "arithmetic"
    version = "1"
    isolation = "shared"
    single_turn = True
    splits = ("train", "test")

    def __init__(
        self,
        path: str | None = None,
        demonstrations: Literal["right", "random"] = "right",
        max_answer: int | None = None,
        system_prompt: str | None = None,
    ) -> None:
        """`path` of a parquet file below the env worker's data root; `{split}` in it stands for the split.

        Demonstrations give the right answer, or a random number of as many digits. Questions with
        an answer above `max_answer` are left out. `system_prompt` goes before the question, for a model that
        would not answer with the digits alone.
        """
        self.path = path
        self.permissions = current()
        self.demonstrations = demonstrations
        self.max_answer = max_answer
        self.preface = system_prompt

    def system_prompt(self) -> str | None:
        return self.preface

    def tasks(self, split: str) -> Sequence[Problem]:
        problems = self._shipped(split) if self.path is None else self._own(self.path, split)
        if self.max_answer is None:
            return problems
        return [problem for problem in problems if int(problem.answer) <= self.max_answer]

    def _shipped(self, split: str) -> list[Problem]:
        if split not in self.splits:
            raise ConfigError(f"there is no split {split!r}; there are {', '.join(self.splits)}")
        with open(SHIPPED.replace("{split}", split), "rb") as file:
            return read_problems(file, split)

    def _own(self, path: str, split: str) -> list[Problem]:
        name = path.replace("{split}", split)
        with self.permissions.open_file(name) as file:
            return read_problems(file, name)

    def reset(self, task: Problem, ctx: Context) -> str:
        self.answer = task.answer
        n_digits = len(task.answer.removeprefix("-"))
        self.category = f"{n_digits} digit{'s' if n_digits > 1 else ''}"
        return task.question

    def step(self, action: str) -> StepResult:
        is_exact = action == self.answer
        reward = 1.0 if is_exact else PARTIAL_REWARD * _share_of_digits(action, self.answer)
        return StepResult(reward=reward, done=True, metrics={"exact": float(is_exact)})

    def demonstrate(self, rng: random.Random) -> str:
        if self.demonstrations == "right":
            return self.answer
        return "".join(rng.choices("0123456789", k=len(self.answer)))


def read_problems(source: BinaryIO, name: str) -> list[Problem]:
    """Raises `ConfigError`, which says nothing of what it holds, for a file that is broken or has other columns."""
    parquet: Any = import_module("pyarrow.parquet")  # untyped, and heavy: only who needs it
    try:
        file = parquet.ParquetFile(source)
        there = [column for column in COLUMNS if column in file.schema_arrow.names]
        columns = file.read(columns=there).to_pydict()
    except (OSError, ValueError) as error:  # a broken file is a ValueError of pyarrow's
        raise ConfigError(f"{name} can't be read: it is not a complete parquet file") from error
    if len(there) < len(COLUMNS):
        raise ConfigError(f"{name} lacks the columns question and answer")
    rows = zip(*(columns[column] for column in COLUMNS), strict=True)
    problems = [Problem(str(question), str(answer)) for question, answer in rows]
    for number, problem in enumerate(problems, 1):
        if not _WHOLE.fullmatch(problem.answer):
            raise ConfigError(f"{name}: the answer of row {number} is no whole number")
    return problems


def _share_of_digits(said: str, answer: str) -> float:
    if not (said.isascii() and said.isdigit()):
        return 0.0
    longest = max(len(said), len(answer))
    right = sum(a == b for a, b in zip(reversed(said), reversed(answer), strict=False))
    return right / longest
