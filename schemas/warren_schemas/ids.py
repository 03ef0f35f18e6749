"""Identifiers: typed strings that sort by the time of their making.

An id reads `<prefix>_<28 hexadecimal digits of time and chance>`, for example
`run_019aa3b7a1c04e5d90ab17ce21d3`. The first twelve digits are milliseconds since 1970, so ids made later sort later;
the rest is chance, which also keeps two machines apart.
"""

import re
import secrets
import time
from typing import Annotated, NewType

from pydantic import Field

RunId = NewType("RunId", str)
ModelId = NewType("ModelId", str)
GroupId = NewType("GroupId", str)
EpisodeId = NewType("EpisodeId", str)
WorkerId = NewType("WorkerId", str)
MessageId = NewType("MessageId", str)

MAX_TASK_ID_CHARS = 256
TaskId = Annotated[str, Field(min_length=1, max_length=MAX_TASK_ID_CHARS)]
"""What an environment, or the data that it has from elsewhere, calls a task."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def can_be_id(text: str) -> bool:
    """Whether anything that was ever made here could be named so."""
    return _ID.fullmatch(text) is not None


def new_id(prefix: str) -> str:
    """A fresh id with this prefix; 64 random bits keep ids of one millisecond apart."""
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"


def made_ms(identifier: str) -> int:
    """When the id was made, in milliseconds since 1970; 0 for an id that was made elsewhere."""
    digits = identifier.rpartition("_")[2][:12]
    try:
        return int(digits, 16)
    except ValueError:
        return 0


def new_run_id() -> RunId:
    return RunId(new_id("run"))


def new_model_id() -> ModelId:
    return ModelId(new_id("model"))


def new_group_id() -> GroupId:
    return GroupId(new_id("group"))


def new_episode_id() -> EpisodeId:
    return EpisodeId(new_id("ep"))


def new_worker_id(role: str) -> WorkerId:
    return WorkerId(new_id(role))


def new_message_id() -> MessageId:
    return MessageId(new_id("msg"))
