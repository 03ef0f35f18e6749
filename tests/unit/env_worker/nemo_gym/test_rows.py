"""Rows of NeMo Gym's data sets: what the policy is shown, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from warren.environment import ConfigError, TaskError
from warren_env_worker.environments.nemo_gym.rows import Task, read_rows, task
from warren_env_worker.permissions.permissions import TRUSTED

PNG = "iVBORw0KGgo="
TOOL: dict[str, Any] = {"type": "function", "name": "add", "parameters": {"type": "object"}}


def read(row: dict[str, Any] | None = None, **params: Any) -> Task:
    of = {"input": "Add.", **params}
    return task(json.dumps({"responses_create_params": of, **(row or {})}).encode())


def refusal(**params: Any) -> str:
    with pytest.raises(TaskError) as refused:
        read(**params)
    return str(refused.value)


def test_a_text_is_a_message_of_the_user_and_instructions_are_the_system_s() -> None:
    found = read(instructions="Be brief.", tools=[TOOL])
    assert found.system == ("Be brief.",)
    assert [(m.role, m.content) for m in found.messages] == [("user", "Add.")]
    assert [tool.name for tool in found.tools] == ["add"]
    assert not found.takes_one_call


def test_messages_keep_their_order_and_words_of_the_assistant_are_quoted() -> None:
    found = read(
        input=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Look:"}, _picture()]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "A cat."}]},
            {"type": "message", "role": "user", "content": "And now?"},
        ]
    )
    assert found.system == ("Be brief.",)
    assert [(m.role, m.content, len(m.images), m.is_quoted) for m in found.messages] == [
        ("user", "Look:", 1, False),
        ("assistant", "A cat.", 0, True),
        ("user", "And now?", 0, False),
    ]


def test_choices_of_tools_and_the_category() -> None:
    assert read(tools=[TOOL], tool_choice="none").tools == ()
    assert read(tools=None, parallel_tool_calls=False).takes_one_call
    assert read({"category": "mail"}).category == "mail"
    assert read({"category": 3, "domain": "law"}).category == "law"


@pytest.mark.parametrize("name", ["verify", "seed_session", "../admin", "a b", "", "ä"])
def test_a_tool_that_is_no_path_of_its_own_is_refused(name: str) -> None:
    told = refusal(tools=[{**TOOL, "name": name}])
    assert "tools.0.name: Value error, a tool's name has letters, digits, _ and -" in told


def test_what_can_t_be_shown_is_refused_with_its_place() -> None:
    called = {"type": "function_call", "name": "add", "arguments": "{}"}
    assert "input.0.type: Input should be 'message'" in refusal(input=[called])
    assert "tools.0.type" in refusal(tools=[{"type": "web_search"}])
    assert "no message for the policy" in refusal(
        input=[{"role": "system", "content": "Be brief."}]
    )
    url = _picture("https://example.org/cat.png")
    assert "in a data URL" in refusal(input=[{"role": "user", "content": [url]}])
    broken = _picture("data:image/png;base64,?")
    assert "in a data URL" in refusal(input=[{"role": "user", "content": [broken]}])


def test_a_file_is_read_whole_and_its_first_bad_row_is_named(tmp_path: Path) -> None:
    good = json.dumps({"responses_create_params": {"input": "Add."}})
    path = tmp_path / "train.jsonl"
    path.write_text(f"{good}\n\n{good}\n")
    assert read_rows(str(path), TRUSTED) == [good.encode()] * 2
    for bad, told in (("{}", "responses_create_params: Field required"), ("{", "it is no JSON")):
        path.write_text(f"{good}\n\n{bad}\n")
        with pytest.raises(ConfigError, match=rf"train.jsonl, row 3: {told}"):
            read_rows(str(path), TRUSTED)


def _picture(url: str = f"data:image/png;base64,{PNG}") -> dict[str, str]:
    return {"type": "input_image", "detail": "auto", "image_url": url}
