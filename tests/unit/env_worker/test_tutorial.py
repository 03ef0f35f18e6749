"""Every class that docs/environments.md shows does what the page says."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.tutorial import block_with

import warren.environment
from warren import Env, StepResult
from warren.environment import ChatMessage
from warren.testing import play


def shown(name: str) -> Callable[..., Env[Any]]:
    """A class of the page; the later ones leave out the imports that the first one shows."""
    names: dict[str, Any] = vars(warren.environment) | {"Env": Env, "StepResult": StepResult}
    exec(block_with(f"class {name}("), names)  # noqa: S102 - our own documentation
    return names[name]


def test_quiz_reads_its_tasks_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps({"question": "2+2?", "answer": "4"}))
    quiz = shown("Quiz")
    assert play(quiz(folder=str(tmp_path)), lambda _: " 4").reward == 1.0
    assert play(quiz(folder=str(tmp_path)), lambda _: "5").reward == 0.0


def test_countdown_takes_several_turns() -> None:
    episode = play(shown("Countdown")(start=3), lambda messages: str(3 - len(messages) // 2))
    assert [result.reward for result in episode.results] == [0.1, 0.1, 1.0]
    assert play(shown("Countdown")(), lambda _: "7").reward == 0.0


def test_the_shop_sells_by_its_tool() -> None:
    def policy(messages: Sequence[ChatMessage]) -> str:
        told = [int(m.content) for m in messages if m.role == "tool"]
        articles = ("tea", "coffee")[len(told) :]
        call = {"name": "price", "arguments": {"article": articles[0]}} if articles else {}
        return f"<tool_call>{json.dumps(call)}</tool_call>" if call else str(sum(told))

    assert play(shown("Shop")(), policy).reward == 1.0


def test_stairs_are_climbed_by_typed_actions() -> None:
    stairs = shown("Stairs")()
    said = iter(["go up!", '{"direction": "up", "steps": GOAL}'])
    episode = play(stairs, lambda _: next(said).replace("GOAL", str(vars(stairs)["goal"])))
    assert (episode.reward, episode.results[-1].metrics) == (1.0, {"unreadable": 0.5})
