"""What the supervisor and a child process say to each other: JSON frames of many calls.

A frame to the child is a list of `Call`, a frame back a list of `Observed` and `Refused`, in the
order in which they finish. Every call is answered exactly once, unless the child dies.

Values of secrets follow behind the JSON of the calls: who passes a call on need not look at them.
"""

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from warren.environment import Sampled
from warren_env_worker.permissions.permissions import Permissions
from warren_env_worker.permissions.sealed import NOTHING, Sealed
from warren_schemas.base import Frozen
from warren_schemas.chat.tool_formats import Tool
from warren_schemas.datasets.order import Order
from warren_schemas.episode import FailureKind
from warren_schemas.images import MediaType
from warren_schemas.isolation.agent_box import Box

Config = dict[str, object]
Role = Literal["system", "user", "assistant", "tool"]
Picture = tuple[MediaType, str]
"""Media type and base64."""
Message = tuple[Role, str] | tuple[Role, str, Sequence[Picture]]
"""Role, content, and images where there are any; of the role `assistant` are words that it is shown as
its own and did not say."""

HEAD = struct.Struct("<II")
"""Before a frame of calls: the size of all that follows the first number, and that of the JSON."""
_N_JSON = struct.Struct("<I")

IDLE = 0
"""No call has this number."""


@dataclass(frozen=True, slots=True)
class Row:
    number: int
    values: Config


@dataclass(frozen=True, slots=True)
class Start:
    """All that defines a fresh episode; equal starts give equal episodes."""

    config: Config
    seed: int
    member: int
    max_turns: int
    split: str
    index: int
    order_seed: int
    """Seed of the order in which tasks are drawn."""
    shuffle: bool
    num_samples: int | None
    task_ids: tuple[str, ...]
    """Only these tasks of the split are used; empty: all."""
    demonstrates: bool
    """Each observation comes with a demonstrated action."""
    tool_format: str | None
    """None: the environment's own."""
    sealed: Sealed
    """The secrets that its environment's code and its services get."""
    permissions: Permissions
    """What its config may reach, without the values of keys."""
    tag: str
    """Stands before what the episode prints."""
    level: int | None = None
    """Of its task, where the run has a curriculum of levels."""
    lists_ids: bool = False
    """Its beginning tells the ids of all tasks of the split."""
    row: Row | None = None
    """The task, where it is a row of a data set."""

    @property
    def order(self) -> Order:
        return Order(self.split, self.order_seed, self.shuffle, self.num_samples)


@dataclass(slots=True)  # not frozen, which would double the time it takes to make one
class Call:
    """Reset the episode of `slot` if `start` is given, then take the actions; answer with the last
    observation. Or, with `closes`, close it.

    `digests` are those that the first observations must have, that of `reset` before all: so an
    episode is made again elsewhere, by the actions that it had and the one that is new.
    """

    id: int
    slot: int
    start: Start | None = None
    actions: Sequence[str] = ()
    sampled: Sequence[Sampled] = ()
    """The tokens of each action, for environments that see them."""
    digests: Sequence[str] = ()
    closes: bool = False
    is_scored: bool = False
    """The answer tells the rewards of all actions, and the metrics of all of them."""
    is_stateless: bool = False
    """Nothing of the episode is kept after the answer: its next call begins it again."""
    group: str | None = None
    """No episode, but a group of them to compare (`rewards.scored.ScoredGroup`, as JSON), by a fresh instance of `start`."""


@dataclass(slots=True)
class Observed:
    """A call that went well."""

    id: int
    messages: Sequence[Message] = ()
    digest: str = ""
    reward: float | None = None
    is_over: bool = False
    is_truncated: bool = False
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    demonstration: str | None = None
    earlier: Sequence[tuple[int, float]] = ()
    """Rewards of earlier actions, by their number, in the place of what those got."""
    after: int | None = None
    """The action, counted from 1, behind which the messages stand, 0 for before all; None: the last one."""
    task_number: int | None = None
    """Of the answer to a reset, like `task_id` and `category`: which task of its split this is."""
    task_id: str | None = None
    category: str | None = None
    n_tasks: int | None = None
    """Of the answer to a reset: how many its split has; None where the environment makes its own."""
    all_ids: Sequence[str | None] | None = None
    """Of the answer to a reset that lists them: what each of these is called; None where there is no list."""
    ids: Sequence[int] = ()
    """The tokens that the policy is shown in place of messages."""
    gold: str | None = None
    """The right answer, where there is one, and which data the task is from: for the parts of a reward."""
    data_source: str = ""
    scores: Sequence[tuple[float, dict[str, float]]] = ()
    """Of a group that was compared: the reward of each episode, and its named parts."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that failed; its episode is gone."""

    id: int
    kind: FailureKind
    reason: str
    is_retryable: bool = True


@dataclass(frozen=True, slots=True)
class Description:
    """The first frame of a child that could import its environment."""

    name: str
    version: str
    code: str
    """Digest of its source."""
    is_replayable: bool
    max_episodes: int | None
    """Most live episodes in one worker; None: as many as the worker holds."""
    sees_tokens: bool
    """Calls come with the tokens of their actions."""
    shortest_s: float
    """The shortest limit of a call."""
    root: str
    """Where its own code lies."""
    longest_s: float
    """The longest one: a busy child that shows no sign of life for that long is stuck."""
    raisable_s: Mapping[str, float]
    """Limits of calls by name, as `late.raisable_s`."""
    splits: Sequence[str]
    is_single_turn: bool
    tools: Sequence[Tool] | None
    """None for an environment that takes plain words alone."""
    box: Box | None = None
    """That its class asks for, of an agent that is a program."""
    compares_groups: bool = False
    """It has a `score_group`."""
    has_levels: bool = False
    """Its tasks can be of a given level."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """The first and last frame of a child that could not."""

    reason: str


Answer = Observed | Refused


def pack(calls: Sequence[Call]) -> bytes:
    head, values = _packed(calls)
    return b"".join((head, *values))


def send(talk: socket.socket, calls: Sequence[Call]) -> None:
    """A frame of calls. Values of secrets are sent from where they lie."""
    head, values = _packed(calls)
    n_bytes = len(head) + sum(map(len, values))
    talk.sendall(n_bytes.to_bytes(4, "little") + head)
    for value in values:
        talk.sendall(value)


def unpack(frame: bytes) -> list[Call]:
    (n_json,) = _N_JSON.unpack_from(frame)
    rest = memoryview(frame)[_N_JSON.size :]
    return unpacked(rest[:n_json], rest[n_json:])


def unpacked(calls: bytearray | memoryview, values: memoryview) -> list[Call]:
    """From JSON, and the values of secrets that follow it."""
    found: list[Call] = []
    for fields in orjson.loads(calls):
        start = fields["start"]
        if start:
            sealed, n_bytes = start["sealed"], start["sealed"]["values"]
            start["sealed"] = NOTHING
            if n_bytes:
                start["sealed"] = Sealed(sealed["secrets"], sealed["keys"], values[:n_bytes])
                values = values[n_bytes:]
        found.append(_call(fields))
    return found


def pack_answers(answers: Sequence[Answer]) -> bytes:
    return orjson.dumps(answers)


def unpack_answers(frame: bytes) -> list[Answer]:
    return [
        _refused(fields) if "kind" in fields else Observed(**fields)
        for fields in orjson.loads(frame)
    ]


def pack_greeting(greeting: Description | Unusable) -> bytes:
    return orjson.dumps(greeting, default=_plain)


def unpack_greeting(frame: bytes) -> Description | Unusable:
    fields = orjson.loads(frame)
    if "reason" in fields:
        return Unusable(**fields)
    tools, box = fields.pop("tools"), fields.pop("box")
    return Description(
        **fields,
        tools=tools and [Tool(**tool) for tool in tools],
        box=None if box is None else Box.model_validate(box),
    )


def _packed(calls: Sequence[Call]) -> tuple[bytes, list[bytes | memoryview]]:
    """The JSON with its size before it, in which the values of secrets are told by their size; and they."""
    json = orjson.dumps(calls, default=_plain)
    starts = (call.start for call in calls if call.start is not None)
    values = [start.sealed.values for start in starts if start.sealed.values]
    return _N_JSON.pack(len(json)) + json, values


def _plain(value: Frozen | memoryview) -> object:
    """Values of secrets are told by their size."""
    return value.model_dump() if isinstance(value, Frozen) else len(value)


def _call(fields: dict[str, Any]) -> Call:
    start = fields["start"]
    if start:
        start["permissions"] = Permissions.unpacked(start["permissions"])
        start["task_ids"] = tuple(start["task_ids"])
        start["row"] = Row(**start["row"]) if start["row"] else None
    fields["start"] = Start(**start) if start else None
    fields["sampled"] = [Sampled(**sampled) for sampled in fields["sampled"]]
    return Call(**fields)


def _refused(fields: dict[str, Any]) -> Refused:
    fields["kind"] = FailureKind(fields["kind"])
    return Refused(**fields)
