"""What the policy may do on a device: actions as AndroidWorld has them, checked before a server hears of one.

The server answers an action that it does not know as it answers a broken emulator, with status 500, so none is sent
unchecked. Places are in the picture that the policy sees. There is no action by the index of an element: the server shows
none.
"""

import json
import re
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, TypeAdapter, ValidationError

from warren_schemas.base import Frozen

MAX_JSON_CHARS = 4_000
MAX_TEXT_CHARS = 1_000
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]


class Touch(Frozen):
    action_type: Literal["click", "double_tap", "long_press"]
    x: NonNegativeInt
    y: NonNegativeInt


class InputText(Frozen):
    """At the place, or where the focus is."""

    action_type: Literal["input_text"]
    text: Text
    x: NonNegativeInt | None = None
    y: NonNegativeInt | None = None
    clear_text: bool | None = None


class Press(Frozen):
    action_type: Literal["keyboard_enter", "navigate_home", "navigate_back", "wait"]


class Move(Frozen):
    action_type: Literal["scroll", "swipe"]
    direction: Literal["up", "down", "left", "right"]


class OpenApp(Frozen):
    action_type: Literal["open_app"]
    app_name: Text


class Answer(Frozen):
    action_type: Literal["answer"]
    text: Text


class Status(Frozen):
    """Ends the episode."""

    action_type: Literal["status"]
    goal_status: Literal["complete", "infeasible"]


Action = Annotated[
    Touch | InputText | Press | Move | OpenApp | Answer | Status,
    Field(discriminator="action_type"),
]
_ACTION: TypeAdapter[Action] = TypeAdapter(Action)
_MARKED = re.compile(r"<action>(.*?)</action>", re.DOTALL)
FORMS = """\
{"action_type": "click", "x": 120, "y": 300}, and so double_tap, long_press
{"action_type": "input_text", "text": "Ada", "x": 120, "y": 300, "clear_text": true}; x, y and clear_text may be left out
{"action_type": "scroll", "direction": "down"}, and so swipe; up, down, left or right
{"action_type": "open_app", "app_name": "Contacts"}
{"action_type": "keyboard_enter"}, and so navigate_home, navigate_back, wait
{"action_type": "answer", "text": "42"}, where the goal asks something
{"action_type": "status", "goal_status": "complete"}, or infeasible: ends the task"""


class Misfit(Exception):
    """Words that are no action; the policy is told why."""


def read(words: str) -> Action:
    """The action that was said last. Raises `Misfit`."""
    said = words.rpartition("</think>")[2]
    marked = _MARKED.findall(said)
    given = _first_object(marked[-1] if marked else said.rpartition("Action:")[2])
    try:
        action = _ACTION.validate_python(given, strict=True)
    except ValidationError as error:
        raise Misfit(_told(error)) from error
    if isinstance(action, InputText) and (action.x is None) != (action.y is None):
        raise Misfit("x and y: give both, or none of them")
    return action


def _first_object(text: str) -> object:
    start = text.find("{")
    try:
        if start >= 0:
            return json.JSONDecoder().raw_decode(text[start : start + MAX_JSON_CHARS])[0]
    except (ValueError, RecursionError):
        pass
    raise Misfit("expected one action as a JSON object")


def _told(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = [str(part) for part in first["loc"][1:]]  # behind the kind of action
    return f"{'.'.join(where) or 'action_type'}: {first['msg']}"
