"""Rows as they lie in files: JSON lines, checked line by line.

Invariant: client and gateway check by this module alone, so what the one lets pass the other takes.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, cast

import orjson

from warren_schemas.datasets.conversations import BadRow, of_messages, of_prompt_and_completion
from warren_schemas.datasets.exported import NotExported, replayable
from warren_schemas.datasets.sampled import is_recorded

MAX_ROW_BYTES = 256 * 1024
"""A row travels with each message of its episode."""
MAX_TRAJECTORY_BYTES = 3 * 1024 * 1024
"""A recorded one has been sent; with what else a part of an upload holds it fits into one."""


class DatasetKind(StrEnum):
    """What the rows of a data set are."""

    MESSAGES = "messages"
    """Chats: `messages`, a list of objects with `role` and `content`."""
    PROMPT_COMPLETION = "prompt_completion"
    """`prompt` and `completion`: two texts, or two lists of messages."""
    TASKS = "tasks"
    """Tasks and prompts: any object that an environment understands."""
    TRAJECTORIES = "trajectories"
    """Rows of an export, which can be replayed."""

    @property
    def max_row_bytes(self) -> int:
        return MAX_TRAJECTORY_BYTES if self is DatasetKind.TRAJECTORIES else MAX_ROW_BYTES


class WrongLine(ValueError):
    """A line of a file is not what it should be."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number
        self.reason = reason


def kind_of(line: bytes) -> DatasetKind:
    """What a file with this first line holds. Raises `WrongLine`."""
    row = parsed(line, 1, MAX_TRAJECTORY_BYTES)
    if is_recorded(row):
        return DatasetKind.TRAJECTORIES
    if "messages" in row:
        return DatasetKind.MESSAGES
    is_pair = "prompt" in row and "completion" in row
    return DatasetKind.PROMPT_COMPLETION if is_pair else DatasetKind.TASKS


def parsed(line: bytes, number: int, max_bytes: int = MAX_ROW_BYTES) -> dict[str, Any]:
    """The row of a line. Raises `WrongLine`."""
    if len(line) > max_bytes:
        raise WrongLine(
            number, f"the row has {len(line)} bytes, and at most {max_bytes} can be sent"
        )
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        what = "is empty" if not line.strip() else f"is not JSON: {error}"
        raise WrongLine(number, f"it {what}") from error
    if not isinstance(row, dict) or not row:
        raise WrongLine(number, "it must be a JSON object with at least one key")
    return cast("dict[str, Any]", row)


def checked(line: bytes, number: int, kind: DatasetKind) -> dict[str, Any]:
    """The row of a line of a data set of this kind. Raises `WrongLine`."""
    row = parsed(line, number, kind.max_row_bytes)
    try:
        match kind:
            case DatasetKind.MESSAGES:
                of_messages(row)
            case DatasetKind.PROMPT_COMPLETION:
                of_prompt_and_completion(row)
            case DatasetKind.TRAJECTORIES:
                replayable(row)
            case DatasetKind.TASKS:
                pass
    except (BadRow, NotExported) as error:
        raise WrongLine(number, f"{error} (the data set is of {kind.value})") from error
    return row


class Columns:
    """The names of the columns of many rows, and the types of their values."""

    def __init__(self) -> None:
        self._types: dict[str, Counter[str]] = {}

    def add(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            self._types.setdefault(name[:_MOST_CHARS], Counter())[_TYPES[type(value)]] += 1
        if len(self._types) > MAX_COLUMNS:
            raise BadRow(f"with this row the data set has more than {MAX_COLUMNS} columns")

    def described(self) -> dict[str, str]:
        """Each column with its types, the most frequent first."""
        return {name: " or ".join(_names(types)) for name, types in self._types.items()}


MAX_COLUMNS = 256
_MOST_CHARS = 128
_TYPES: dict[type, str] = {
    str: "text", int: "integer", float: "number", bool: "true or false", list: "list", dict: "object",
    type(None): "null",
}  # fmt: skip


def _names(types: Counter[str]) -> Iterable[str]:
    return (name for name, _ in types.most_common())
