"""What the tools of a served environment say to it, and how it is served."""

from pathlib import Path
from typing import Any

import pytest

from warren.environment import Context, StepResult
from warren.errors import ConfigurationError
from warren.tools import ToolEnv, tool
from warren_env_worker.environments.arithmetic import Arithmetic
from warren_env_worker.environments.guess import Guess
from warren_env_worker.host.environment_class.describing import describe
from warren_env_worker.host.protocol import Message, Observed
from warren_env_worker.ors_server.bodies import Create
from warren_env_worker.ors_server.catalogue import spec_of
from warren_env_worker.ors_server.settings import Served, served_by_name
from warren_env_worker.ors_server.tools import FORM, CallRefused, Toolbox
from warren_schemas.chat.tool_formats import MAX_CALL_CHARS, Call, parse_calls, tools_prompt
from warren_schemas.config import ToolFormat
from warren_schemas.episode import TaskRef


class Shelf(ToolEnv):
    def reset(self, task: None, ctx: Context) -> str:
        return "?"

    @tool
    def look(self, place: int) -> str:
        """What lies there."""
        return "a book"

    def answer(self, words: str) -> StepResult:
        return StepResult(done=True)


def box(environment: Any) -> Toolbox:
    return Toolbox(describe(environment))


def names(toolbox: Toolbox) -> tuple[list[str], str | None]:
    listed: Any = toolbox.listed()
    terminal = listed["terminal_tool"]
    return [one["name"] for one in listed["tools"]], terminal and terminal["name"]


def test_each_kind_of_environment_has_the_tool_for_its_answer() -> None:
    assert names(box(Arithmetic)) == (["answer"], "answer")
    assert names(box(Guess)) == (["act"], None)
    assert names(box(Shelf)) == (["look", "answer"], "answer")


def test_a_call_is_said_as_a_policy_says_it() -> None:
    shelf = box(Shelf)
    said = shelf.action("look", {"place": 3, "note": "</tool_call> é"})
    assert parse_calls(said, FORM) == [Call("look", {"place": 3, "note": "</tool_call> é"})]
    assert shelf.action("answer", {"text": "b"}) == "b"


@pytest.mark.parametrize("form", ToolFormat)
def test_an_environment_with_a_form_of_its_own_understands_the_calls(form: ToolFormat) -> None:
    class Own(Shelf):
        tool_format = form

    shelf = Own()
    spec = spec_of("shelf", TaskRef(split="train", index=0), Served(), seed=0)
    shelf.context = Context(0, tool_format=spec.tool_format)
    result = shelf.step(box(Own).action("look", {"place": 3}))
    assert isinstance(result, StepResult)
    assert "a book" in str(result.observation)


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("lok", {}, "not_found"),
        ("answer", {"text": 1}, "input_validation"),
        ("answer", {"text": "a", "more": "b"}, "input_validation"),
        ("look", {"text": "x" * MAX_CALL_CHARS}, "input_validation"),
    ],
)
def test_what_nobody_understands_is_said_to_the_policy(
    name: str, given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(CallRefused) as refused:
        box(Shelf).action(name, given)
    assert refused.value.reason == reason


def test_an_error_that_the_environment_counts_is_a_refused_call_unless_it_ends() -> None:
    shelf, before = box(Shelf), {"tool_errors": 1.0}
    wrong = Observed(1, metrics={"tool_errors": 2.0})
    assert shelf.is_refused(wrong, before)
    assert not shelf.is_refused(wrong, wrong.metrics)
    assert not shelf.is_refused(Observed(1, is_over=True, metrics=wrong.metrics), before)


def test_the_prompt_leaves_the_tools_out() -> None:
    told = tools_prompt(Shelf.offered(), FORM)
    messages: list[Message] = [("system", f"Before.\n\n{told}\n\nBehind."), ("user", "?")]
    shelf = box(Shelf)
    assert shelf.without_tools(messages) == [("system", "Before.\n\nBehind."), ("user", "?")]
    assert shelf.without_tools([("system", told), ("user", "?")]) == [("user", "?")]


@pytest.mark.parametrize("body", ["{}", '{"split": "train"}', '{"toolset_name": "x"}'])
def test_a_session_is_of_one_task(body: str) -> None:
    with pytest.raises(ValueError, match=r"task_spec|toolset"):
        Create.model_validate_json(body)


def test_a_file_of_settings_that_says_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "served.yaml"
    file.write_text("guess: {n_taks: 3}")
    with pytest.raises(ConfigurationError, match="n_taks"):
        served_by_name(file)
    with pytest.raises(ConfigurationError, match="can't be read"):
        served_by_name(tmp_path / "other.yaml")
    file.write_text("guess: {n_tasks: 3}")
    assert served_by_name(file)["guess"].n_tasks == 3
