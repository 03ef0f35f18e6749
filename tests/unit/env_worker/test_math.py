"""The environment `math`: files in every layout, rewards, what is shown, failing verifiers.

Parity row 41.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.support.question_files import write_lines

from warren.environment import ChatMessage, ConfigError
from warren.host_services.verdict import AnswerForm
from warren.testing import play
from warren_env_worker.environments.math import Math
from warren_env_worker.environments.questions import read_questions
from warren_env_worker.host.environment_class.config import ConfigSchema
from warren_env_worker.permissions.permissions import TRUSTED

arrow: Any = import_module("pyarrow")


parquet: Any = import_module("pyarrow.parquet")


ASKED = [{"role": "user", "content": "What is 6*7?"}]


LAYOUTS: dict[str, dict[str, object]] = {
    "gsm8k": {"question": "What is 6*7?", "answer": "6*7=<<6*7=42>>42\n#### 42"},
    "math": {"problem": "What is 6*7?", "solution": r"6 \cdot 7 = \boxed{42}", "level": "1"},
    "math_500": {"problem": "What is 6*7?", "solution": "so 43", "answer": "42"},
    "deepscaler": {"problem": "What is 6*7?", "answer": "42", "solution": r"\boxed{43}"},
    "verl_gsm8k": {
        "data_source": "openai/gsm8k",
        "prompt": ASKED,
        "reward_model": {"style": "rule", "ground_truth": "42"},
        "extra_info": {"answer": "a worked solution #### 43", "index": 0, "split": "train"},
    },
    "verl_math": {"prompt": ASKED, "reward_model": {"ground_truth": "42"}, "ability": "math"},
    "opentinker": {
        "prompt": ASKED,
        "ground_truth": "42",
        "extra_info": {"interaction_kwargs": {"ground_truth": "43"}},
    },
    "dapo": {
        "prompt": [{"content": "What is 6*7?", "role": "user"}],
        "reward_model": {"ground_truth": "42", "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": "9a9b6eb4-a1cb-49d1-8c1e-62eaf2f74079"},
    },
    "open_r1_dapo": {"prompt": "What is 6*7?", "solution": "42", "data_source": "math_dapo"},
    "numbers": {"question": "What is 6*7?", "answer": 42},
    "list": {"problem": "What is 6*7?", "answer": ["42"]},
}


def write_parquet(path: Path, *rows: dict[str, object]) -> Path:
    parquet.write_table(arrow.Table.from_pylist(list(rows)), path)
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "json"])
def test_layouts(layout: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps([LAYOUTS[layout]]))
    else:
        (write_parquet if suffix == "parquet" else write_lines)(path, LAYOUTS[layout])
    (question,) = read_questions(path, TRUSTED)
    assert question.prompt == (ChatMessage(role="user", content="What is 6*7?"),)
    assert question.gold == "42"
    assert question.category == LAYOUTS[layout].get("data_source")


def test_a_category_is_told_by_the_file(tmp_path: Path) -> None:
    row: dict[str, object] = {
        "problem": "What is 6*7?",
        "answer": "42",
        "type": "Prealgebra",
        "data_source": "math",
    }
    path = write_lines(tmp_path / "x.jsonl", row)
    (question,) = read_questions(path, TRUSTED)
    assert question.category == "Prealgebra"


def test_repeated_rows_come_once(tmp_path: Path) -> None:
    other: dict[str, object] = {**LAYOUTS["dapo"], "reward_model": {"ground_truth": "1"}}
    path = write_parquet(tmp_path / "x.parquet", *[LAYOUTS["dapo"]] * 100, other)
    assert [question.gold for question in read_questions(path, TRUSTED)] == ["42", "1"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "?"}, "row 1: it lacks prompt, problem and question"),
        ({"problem": "?"}, "it lacks reward_model.ground_truth, ground_truth, answer and solution"),
        ({"problem": "?", "solution": "I\nthink so"}, "its solution has no box"),
        ({"problem": "?", "answer": ["1", "2"]}, "its answer must be a text or a number"),
        ({"problem": "?", "answer": " "}, "its answer must be a text or a number"),
        ({"prompt": [{"role": "assistant", "content": "?"}], "answer": "1"}, "role system or user"),
        (
            {"prompt": [{"role": "system", "content": "?"}], "answer": "1"},
            "must end with a message",
        ),
        ({"problem": "<image>?", "answer": "1", "images": ["aGk="]}, "it has images"),
    ],
)
def test_rows_that_will_not_do_are_named(
    row: dict[str, object], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=reason):
        read_questions(write_lines(tmp_path / "x.jsonl", row), TRUSTED)


def test_a_question_without_a_right_answer_gets_no_reward_where_it_may_be_asked(
    tmp_path: Path,
) -> None:
    path = write_lines(tmp_path / "x.jsonl", {"question": "Be brief."}, LAYOUTS["math"])
    environment = Math(str(path), needs_answers=False)
    assert [question.gold for question in environment.tasks("train")] == [None, "42"]
    episodes = [play(environment, lambda _: r"\boxed{42}", index=index) for index in range(2)]
    assert sorted("exact" in episode.results[-1].metrics for episode in episodes) == [False, True]
    assert {episode.results[-1].reward for episode in episodes} == {1.0, None}
    with pytest.raises(ConfigError, match="row 1: it lacks reward_model"):
        Math(str(path)).tasks("train")


def test_files_that_will_not_do(tmp_path: Path) -> None:
    for name, content, reason in (
        ("none.jsonl", None, "can't be read"),
        ("x.csv", "a,b", r"must end in \.parquet, \.jsonl or \.json"),
        ("x.parquet", "text", "can't be read"),
        ("x.jsonl", "{", "can't be read"),
        ("y.jsonl", "[1]", "a row must be an object"),
    ):
        if content is not None:
            (tmp_path / name).write_text(content)
        with pytest.raises(ConfigError, match=reason):
            read_questions(tmp_path / name, TRUSTED)


@pytest.mark.parametrize(
    ("said", "reward", "metric"),
    [
        (r"<think>\boxed{1}</think>It is \boxed{42.0}.", 1.0, {"exact": 1.0}),
        (r"\boxed{43}", 0.0, {"exact": 0.0, "answered": 1.0, "parseable": 1.0}),
        ("it is 42", 0.0, {"answered": 0.0}),
        (r"\boxed{9^{9^{9^9}}}", 0.0, {"refused": 1.0}),
        ("", 0.0, {"answered": 0.0}),
    ],
)
def test_row_41_an_answer_is_verified_in_one_turn(
    said: str, reward: float, metric: dict[str, float], tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "train.jsonl", LAYOUTS["gsm8k"])
    episode = play(Math(str(path.with_name("{split}.jsonl"))), lambda _: said)
    assert episode.reward == reward
    assert episode.results[-1].done
    assert metric.items() <= episode.results[-1].metrics.items()


def test_the_right_answer_is_never_shown(tmp_path: Path) -> None:
    rows = [{**row, "question": "What?", "problem": "What?"} for row in LAYOUTS.values()]
    for number, row in enumerate(rows):
        row["prompt"] = "What?"
        path = write_lines(tmp_path / f"{number}.jsonl", row)
        episode = play(Math(str(path)), lambda _: r"\boxed{1}")
        assert not any("42" in message.content for message in episode.messages)


def test_instructions_follow_plain_questions_only(tmp_path: Path) -> None:
    plain = str(write_lines(tmp_path / "plain.jsonl", LAYOUTS["gsm8k"]))
    chat = str(write_lines(tmp_path / "chat.jsonl", LAYOUTS["verl_math"]))

    def shown(environment: Math) -> list[str]:
        return [
            m.content for m in play(environment, lambda _: "").messages if m.role != "assistant"
        ]

    boxed = "What is 6*7?\n\nPut your final answer within \\boxed{}."
    assert shown(Math(plain)) == [boxed]
    assert shown(Math(plain, instruction="")) == ["What is 6*7?"]
    assert shown(Math(plain, answer_form=AnswerForm.HASHES))[0].endswith("after ####.")
    assert shown(Math(chat)) == ["What is 6*7?"]
    assert shown(Math(chat, instruction="Go.", system_prompt="Be brief.")) == [
        "Be brief.",
        "What is 6*7?\n\nGo.",
    ]


def test_configs_name_the_form_as_text() -> None:
    checked = ConfigSchema(Math).check({"path": "x", "answer_form": "boxed"})
    assert checked["answer_form"] is AnswerForm.BOXED


def test_a_row_of_a_data_set_is_asked_like_one_of_a_file() -> None:
    question = Math().task_of({"question": "What is 6*7?", "answer": "#### 42"})
    assert (question.prompt[0].content, question.gold) == ("What is 6*7?", "42")
    with pytest.raises(ConfigError, match="path has no effect beside a dataset"):
        Math(path="train.jsonl").task_of({"question": "?", "answer": "1"})
    with pytest.raises(ConfigError, match="nothing says where the questions are"):
        Math().tasks("train")
    with pytest.raises(ConfigError, match="it lacks prompt"):
        Math().task_of({"answer": "1"})
