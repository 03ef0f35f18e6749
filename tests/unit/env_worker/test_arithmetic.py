"""Arithmetic: the shipped questions, other files, rewards."""

import random
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from warren.environment import ConfigError
from warren.testing import play
from warren_env_worker.environments.arithmetic import Arithmetic, Problem
from warren_env_worker.environments.arithmetic_data import questions

arrow: Any = import_module("pyarrow")
parquet: Any = import_module("pyarrow.parquet")


def write(path: Path, **columns: list[object]) -> str:
    parquet.write_table(arrow.table(columns), path)
    return str(path)


def reward(answer: str, said: str) -> float:
    environment = Arithmetic()
    environment.answer = answer
    return environment.step(said).reward or 0.0


@pytest.mark.parametrize(("split", "n"), [("train", 4550), ("test", 500)])
def test_the_shipped_files_hold_what_the_generator_makes(split: str, n: int) -> None:
    problems = Arithmetic().tasks(split)
    assert len(problems) == n
    assert problems == [Problem(q, str(a)) for q, a in questions()[split]]


def test_every_shipped_sum_is_right_and_in_one_split() -> None:
    seen: set[tuple[int, ...]] = set()
    for question, answer in [*Arithmetic().tasks("train"), *Arithmetic().tasks("test")]:
        numbers = [int(number) for number in question.removesuffix("=").split("+")]
        assert sum(numbers) == int(answer)
        assert tuple(sorted(numbers)) not in seen
        seen.add(tuple(sorted(numbers)))


def test_small_sums_alone() -> None:
    answers = [int(problem.answer) for problem in Arithmetic(max_answer=18).tasks("train")]
    assert len(answers) == 90
    assert max(answers) == 18


def test_an_episode() -> None:
    right = Arithmetic().tasks("test")[0].answer
    episode = play(Arithmetic(), lambda _: right, split="test")
    assert episode.reward == 1.0
    assert episode.results[-1].metrics == {"exact": 1.0}


def test_a_system_prompt_goes_before_the_question() -> None:
    words = "Answer in digits."
    episode = play(Arithmetic(system_prompt=words), lambda _: "1", split="test")
    assert [(each.role, each.content) for each in episode.messages][:2] == [
        ("system", words),
        ("user", Arithmetic().tasks("test")[0].question),
    ]


@pytest.mark.parametrize(
    ("answer", "said", "expected"),
    [
        ("123", "123", 1.0),
        ("123", "23", 0.2 * 2 / 3),
        ("123", "124", 0.2 * 2 / 3),
        ("123", "0123", 0.2 * 3 / 4),
        ("123", "456", 0.0),
        ("123", "", 0.0),
        ("123", " 123", 0.0),
        ("123", "١٢٣", 0.0),
        ("123", "123abc", 0.0),
        ("-5", "-5", 1.0),
    ],
)
def test_rewards(answer: str, said: str, expected: float) -> None:
    assert reward(answer, said) == pytest.approx(expected)


def test_demonstrations_are_right_or_random() -> None:
    rng = random.Random(0)
    environment = Arithmetic()
    environment.answer = "123"
    assert environment.demonstrate(rng) == "123"
    environment = Arithmetic(demonstrations="random")
    environment.answer = "123"
    shown = {environment.demonstrate(rng) for _ in range(20)}
    assert len(shown) > 10
    assert all(len(text) == 3 and text.isdigit() for text in shown)


def test_other_files_with_answers_as_numbers_or_text(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", question=["1+1="], answer=[2], more=["unread"])
    assert Arithmetic(path=path).tasks("any") == [Problem("1+1=", "2")]
    write(tmp_path / "dev.parquet", question=["2+2="], answer=["4"])
    pattern = str(tmp_path / "{split}.parquet")
    assert Arithmetic(path=pattern).tasks("dev") == [Problem("2+2=", "4")]


def test_files_that_will_not_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.parquet can't be read"):
        Arithmetic(path=str(tmp_path / "none.parquet")).tasks("train")
    text = tmp_path / "text.parquet"
    text.write_text("question,answer")
    with pytest.raises(ConfigError, match="can't be read"):
        Arithmetic(path=str(text)).tasks("train")
    path = write(tmp_path / "other.parquet", question=["1+1="], solution=[2])
    with pytest.raises(ConfigError, match="lacks the columns question and answer"):
        Arithmetic(path=path).tasks("train")


@pytest.mark.parametrize("max_answer", [None, 5])
@pytest.mark.parametrize("answer", ["the hidden solution", "1.5", "", "٣", "9" * 5000, None])
def test_an_answer_that_is_no_whole_number_is_told_by_its_row_alone(
    answer: str | None, max_answer: int | None, tmp_path: Path
) -> None:
    path = write(tmp_path / "x.parquet", question=["1+1=", "?"], answer=["-2", answer])
    with pytest.raises(ConfigError) as refused:
        Arithmetic(path=path, max_answer=max_answer).tasks("train")
    assert str(refused.value) == f"{path}: the answer of row 2 is no whole number"
