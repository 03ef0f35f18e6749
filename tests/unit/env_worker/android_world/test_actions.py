"""What the policy says to a phone: read, checked, or told why it is no action."""

import pytest

from warren_env_worker.environments.android_world.actions import (
    FORMS,
    Answer,
    InputText,
    Misfit,
    Move,
    OpenApp,
    Press,
    Status,
    Touch,
    read,
)


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ('{"action_type": "click", "x": 1, "y": 2}', Touch(action_type="click", x=1, y=2)),
        (
            'Reason: to type.\nAction: {"action_type": "input_text", "text": "Ada"}',
            InputText(action_type="input_text", text="Ada"),
        ),
        (
            '<think>{"action_type": "wait"}</think><action> {"action_type": "scroll", "direction": "up"} </action>.',
            Move(action_type="scroll", direction="up"),
        ),
        (
            '<action>{"action_type": "wait"}</action><action>{"action_type": "navigate_back"}</action>',
            Press(action_type="navigate_back"),
        ),
        (
            '{"action_type": "open_app", "app_name": "Simple {Notes}"} and so on }',
            OpenApp(action_type="open_app", app_name="Simple {Notes}"),
        ),
        ('{"action_type": "answer", "text": "42"}', Answer(action_type="answer", text="42")),
        (
            '{"action_type": "status", "goal_status": "infeasible"}',
            Status(action_type="status", goal_status="infeasible"),
        ),
    ],
)
def test_the_last_action_that_is_said_counts(words: str, action: object) -> None:
    assert read(words) == action


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "expected one action as a JSON object"),
        ("click 3 4", "expected one action as a JSON object"),
        ('{"action_type": "click", "x": 1', "expected one action as a JSON object"),
        ('{"a":' * 100_000, "expected one action as a JSON object"),
        ("{" + " " * 5_000 + '"action_type": "wait"}', "expected one action as a JSON object"),
        ('{"action_type": "unknown"}', "does not match any of the expected tags"),
        ('{"x": 1}', "action_type: Unable to extract tag"),
        ('{"action_type": "click", "x": 1, "y": -2}', "y: Input should be greater than or equal"),
        ('{"action_type": "click", "x": 1.5, "y": 2}', "x: Input should be a valid integer"),
        ('{"action_type": "click", "x": 1, "y": 2, "index": 3}', "index: Extra inputs"),
        ('{"action_type": "scroll", "direction": "in"}', "direction: Input should be 'up'"),
        ('{"action_type": "input_text", "text": ""}', "text: String should have at least 1"),
        ('{"action_type": "input_text", "text": "a", "x": 1}', "x and y: give both"),
        ('{"action_type": "status", "goal_status": "done"}', "goal_status: Input should be"),
    ],
)
def test_what_is_no_action_is_told_why(words: str, reason: str) -> None:
    with pytest.raises(Misfit) as told:
        read(words)
    assert reason in str(told.value)
    assert len(str(told.value)) < 300


def test_the_forms_that_the_policy_is_told_are_actions() -> None:
    examples = [line[: line.rindex("}") + 1] for line in FORMS.splitlines()]
    assert len({type(read(example)) for example in examples}) == 7
