"""The environment `prompts`: what it asks, and that it judges nothing."""

from typing import Any

import pytest

from warren.environment import ConfigError, Context, TaskError
from warren_env_worker.environments.prompts import Prompts


def asked(row: dict[str, Any], **config: Any) -> tuple[list[tuple[str, str]], str | None]:
    environment = Prompts(**config)
    shown = environment.reset(environment.task_of(row), Context.derive(0))
    return [(m.role, m.content) for m in shown], environment.system_prompt()


def test_a_prompt_is_a_text_or_messages_whose_last_answers_are_left_out() -> None:
    user = [("user", "1?")]
    assert asked({"prompt": "1?"}) == (user, None)
    assert asked({"prompt": [{"role": "user", "content": "1?"}]}) == (user, None)
    chat = [
        {"role": "system", "content": "sums"},
        {"role": "user", "content": "1?"},
        {"role": "assistant", "content": "1"},
    ]
    assert asked({"messages": chat}) == (user, "sums")
    assert asked({"messages": chat}, system_prompt="briefly") == (user, "briefly\n\nsums")


def test_nothing_is_judged() -> None:
    environment = Prompts()
    task = environment.task_of({"prompt": "1?", "category": "easy"})
    environment.reset(task, Context.derive(0))
    result = environment.step("7")
    assert (result.reward, result.done, environment.category) == (0.0, True, "easy")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "?"}, "it has no prompt"),
        ({"prompt": ""}, "prompt is empty"),
        ({"messages": [{"role": "assistant", "content": "?"}]}, "nothing to ask"),
    ],
)
def test_a_row_that_asks_nothing_is_refused(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(TaskError, match=reason):
        Prompts().task_of(row)


def test_there_is_nothing_to_ask_without_a_data_set() -> None:
    with pytest.raises(ConfigError, match="prompts come from a data set"):
        Prompts().tasks("train")
