"""The environment `math_python`: calls in every form, state between them, limits, sandboxes that fail.

Parity row 42.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from warren.environment import ChatMessage, ConfigError, Context, StepResult
from warren.host_services.cells import SandboxFailed
from warren.host_services.settings import SandboxLimits, SandboxSettings
from warren.observation import PromptTokens
from warren.testing import Episode, play
from warren_env_worker.environments.math_python import MathPython
from warren_env_worker.host.environment_class.config import ConfigSchema
from warren_env_worker.sandbox.process import ProcessSandbox
from warren_schemas.config import ToolFormat


def in_json(code: str) -> str:
    call = {"name": "python", "arguments": {"code": code}}
    return f"Let me see.\n<tool_call>\n{json.dumps(call)}\n</tool_call>"


def in_xml(code: str) -> str:
    return f"<tool_call>\n<function=python>\n<parameter=code>\n{code}\n</parameter>\n</function>\n</tool_call>"


def in_fence(code: str) -> str:
    return f"Let me see.\n```python\n{code}\n```"


FORMS: dict[ToolFormat, Callable[[str], str]] = {
    ToolFormat.HERMES: in_json,
    ToolFormat.XML: in_xml,
    ToolFormat.CODE: in_fence,
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "train.jsonl"
    file.write_text(json.dumps({"question": "What is 6*7?", "answer": "#### 42"}))
    return str(file)


def played(environment: MathPython, *actions: str) -> Episode:
    waiting = list(actions)
    return play(environment, lambda _: waiting.pop(0))


def shown(result: StepResult) -> str:
    assert not isinstance(result.observation, PromptTokens)
    (message,) = result.observation
    assert isinstance(message, ChatMessage)
    return message.content


@pytest.mark.parametrize("form", ToolFormat)
def test_row_42_code_runs_in_the_sandbox_in_every_form(form: ToolFormat, path: str) -> None:
    call = FORMS[form]
    episode = played(
        MathPython(path, tool_format=form), call("x = 6"), call("print(x * 7)"), r"\boxed{42}"
    )
    nothing, output, end = episode.results
    assert "[it printed nothing]" in shown(nothing)
    assert "42" in shown(output)
    assert (end.reward, end.done) == (1.0, True)
    assert end.metrics["calls"] == 2
    roles = [message.role for message in episode.messages]
    tool = "user" if form is ToolFormat.CODE else "tool"
    assert roles == ["system", "user", "assistant", tool, "assistant", tool, "assistant"]
    assert "python" in episode.messages[0].content


def test_what_a_cell_prints_is_no_answer(path: str) -> None:
    episode = played(MathPython(path), in_json(r"print(r'\boxed{42}')"), "I am done.")
    assert episode.reward == 0.0
    assert episode.results[-1].metrics["answered"] == 0.0


def test_row_42_a_call_over_its_limit_is_stopped_and_keeps_the_variables(path: str) -> None:
    sandbox = SandboxSettings(limits=SandboxLimits(cell_s=5.0))
    episode = played(
        MathPython(path, sandbox=sandbox),
        in_json("x = 42"),
        in_json("while True: pass"),
        in_json("import os; os._exit(1)"),
        in_json("1 / 0"),
        in_json("print(x)"),
        "#### 42",
    )
    _, late, dead, wrong, output, end = episode.results
    assert (
        shown(late) == "[stopped: it ran longer than 5 s] Variables from before this call are kept."
    )
    assert shown(dead) == "[the process crashed] Variables from before this call are kept."
    assert shown(wrong).endswith("ZeroDivisionError: division by zero")
    assert shown(output) == "42"
    assert end.metrics["failed_calls"] == 3


def test_calls_are_counted_and_run_out(path: str) -> None:
    broken = "<tool_call>{"
    episode = played(MathPython(path, max_calls=2), broken, in_json("1"), in_json("2"))
    wrong, last, end = episode.results
    assert "cut off" in shown(wrong)
    assert shown(last).endswith("[this was the last call; give your answer now]")
    assert end.done
    assert end.reward == 0.0
    assert end.metrics["misformed_calls"] == 1
    with pytest.raises(ConfigError, match="at least 1"):
        MathPython(path, max_calls=0)


def test_a_sandbox_that_fails_gives_no_reward(path: str) -> None:
    sandbox = SandboxSettings(tier="bubblewrap", python="/no/such/python")
    with pytest.raises(SandboxFailed, match="no sandbox works here"):
        played(MathPython(path, sandbox=sandbox), in_json("1"))


async def test_who_is_closed_in_the_middle_of_a_call_leaves_no_session_behind(path: str) -> None:
    environment = MathPython(path)
    await environment.reset(environment.tasks("train")[0], Context.derive(1))
    step = asyncio.create_task(environment.step(in_json("1")))
    await asyncio.sleep(0)
    await environment.close()  # its session is being opened
    await step
    assert isinstance(environment.sandbox, ProcessSandbox)
    assert environment.sandbox._child is None  # pyright: ignore[reportPrivateUsage]


def test_configs_hold_the_sandbox() -> None:
    checked = ConfigSchema(MathPython).check(
        {
            "path": "x",
            "tool_format": "xml",
            "sandbox": {"tier": "landlock", "limits": {"cell_s": 3}},
        }
    )
    assert checked["sandbox"] == SandboxSettings(tier="landlock", limits=SandboxLimits(cell_s=3))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ('<tool_call>{"name": "bash", "arguments": {"code": ""}}</tool_call>', "no tool 'bash'"),
        ('<tool_call>{"name": "python", "arguments": {}}</tool_call>', "needs the argument code"),
    ],
)
def test_calls_of_what_there_is_not_are_answered(words: str, reason: str, path: str) -> None:
    episode = played(MathPython(path), words, "42")
    assert reason in shown(episode.results[0])


def test_a_fence_of_another_language_is_no_call(path: str) -> None:
    episode = played(
        MathPython(path, tool_format=ToolFormat.CODE), "```text\n6*7\n```\n\\boxed{42}"
    )
    assert episode.reward == 1.0
