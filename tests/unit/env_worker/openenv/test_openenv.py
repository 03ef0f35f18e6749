"""What words become as actions, and what of an observation is shown."""

from typing import Any

import pytest

from warren.environment import ConfigError
from warren_env_worker.environments.openenv.actions import Actions
from warren_env_worker.environments.openenv.answers import MESSAGE, Error, Observed
from warren_env_worker.environments.openenv.environment import OpenEnv
from warren_env_worker.environments.tool_calls import ReadCall
from warren_env_worker.permissions.secrets import for_run

TEXT: dict[str, Any] = {"type": "string"}


def schema(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"properties": {"metadata": {"type": "object"}, **properties}, "required": [*required]}


@pytest.mark.parametrize(
    ("of", "field"),
    [
        (schema(("message",), message=TEXT), "message"),
        (schema(("code",), code=TEXT, timeout_s={"type": "number"}), "code"),
        (schema(said=TEXT), "said"),
        (schema(("x", "y"), x=TEXT, y=TEXT), None),
        (schema(("x",), x={"type": "integer"}), None),
        (schema(("way",), way={"type": "string", "enum": ["left", "right"]}), None),
        (schema(("tool_name",), tool_name=TEXT, arguments={"type": "object"}), None),
        ({}, None),
    ],
)
def test_words_are_the_one_text_that_an_action_needs(of: dict[str, Any], field: str | None) -> None:
    assert Actions(of, None, None).field == field


def test_what_is_no_text_is_a_tool() -> None:
    of = schema(("way",), way={"type": "string", "enum": ["left", "right"]}) | {
        "description": "Go."
    }
    actions = Actions(of, None, None)
    (tool,) = actions.tools(())
    assert (tool.name, tool.description) == ("act", "Go.")
    assert tool.input_schema is not None
    assert list(tool.input_schema["properties"]) == ["way"]
    assert actions.of_call(ReadCall("act", {"way": "left"})) == {"way": "left"}
    assert Actions(of, "way", None).of_words("left") == {"way": "left"}


def test_tools_of_the_environment_are_not_hidden() -> None:
    of = schema(("tool_name",), tool_name=TEXT, arguments={"type": "object"})
    with pytest.raises(
        ConfigError, match="action_tool: the environment has tools of its own, which go"
    ):
        Actions(of, None, "go")


@pytest.mark.parametrize(
    ("observation", "fields", "text"),
    [
        ({"text": "hello", "metadata": {"step": 1}}, (), "hello"),
        ({"text": "hello", "n": 0, "none": None, "empty": ""}, (), "text: hello\nn: 0"),
        ({"text": "hello", "n": 0}, ("n",), "0"),
        ({"metadata": {"prompt": "do it", "id": "x"}}, ("metadata.prompt",), "do it"),
        ({"metadata": {"prompt": "do it"}}, (), '{"prompt": "do it"}'),
        ({"board": [[1, 2]], "metadata": {}}, (), "[[1, 2]]"),
        ({"text": ""}, (), "(nothing)"),
        ({"tool_name": "t", "result": {"content": [{"text": "a"}, {"text": "b"}]}}, (), "a\nb"),
        ({"tool_name": "t", "result": {"content": []}}, ("x",), "(nothing)"),
        ({"tool_name": "t", "result": 3}, (), "3"),
    ],
)
def test_what_is_shown(observation: dict[str, Any], fields: tuple[str, ...], text: str) -> None:
    assert Observed(observation=observation).text(fields) == text


def test_errors_say_where() -> None:
    wrong = '{"type": "missing", "loc": ["x"], "msg": "Field required", "input": {}}'
    told = {
        f'{{"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": [{wrong}]}}': "x: Field required",
        '{"message": "it\\nraised", "code": "EXECUTION_ERROR"}': "it raised",
    }
    for data, text in told.items():
        read = MESSAGE.validate_json(f'{{"type": "error", "data": {data}}}').data
        assert isinstance(read, Error)
        assert read.told == text


def test_a_secret_is_taken_out_of_an_error_before_that_is_cut() -> None:
    key = "key-0123456789"
    error = Error(message="x" * 495 + key, code="EXECUTION_ERROR")
    with for_run({"KEY": key}):
        assert error.told == "x" * 495 + "<KEY>"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"action_field": "a", "action_tool": "b"}, "words are an action, or call one"),
        ({"tasks_of": "../x"}, "tasks_of: expected letters"),
        ({"reset": {"seed": 3}}, "reset.seed: each episode gets a seed of its own"),
        ({"tasks_of": "x", "reset": {"split": "test"}}, "reset.split: the tasks of tasks_of have"),
        (
            {"tasks_of": "x", "reset": {"index": 3}},
            "reset.index: the tasks of tasks_of have their own",
        ),
    ],
)
def test_a_config_that_has_no_meaning_is_refused(config: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        OpenEnv("http://127.0.0.1:1/", **config)
