"""A row of an export as the episode that it was made from, with all that is trained on.

Invariant: tokens, rewards, turns and conversations are those that were recorded, bit by bit; what nobody learns from
(digests of observations, metrics of single turns) stays behind. Images do too, so an episode that showed some has failed.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Literal, NamedTuple

import numpy as np
import orjson
from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field, ValidationError

from warren_schemas.config import RecordedFate
from warren_schemas.config.groups import MAX_GROUP_SIZE
from warren_schemas.envelope import Envelope
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodePurpose,
    EpisodeSpec,
    Failed,
    FailureKind,
    StopReason,
    default_task_id,
)
from warren_schemas.episode_times import EpisodeTimes
from warren_schemas.ids import EpisodeId, RunId, TaskId, can_be_id
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.text.explain import explain
from warren_schemas.transcript import Branch, ChatMessage, Tokens, Transcript, Turn

REWARD_PART = "reward/"
"""How parts of a composed reward are named among an environment's metrics."""
MAX_BRANCHES = 4096
"""Of an episode: each has an answer of its own."""
MOST_TOLD = 3
"""Columns that are wrong, of one row."""
_MOST_CHARS = 80
_OBJECT_BYTES = 512
_NO_IMAGES = "the environment showed images, which are not in exports"

Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class NotExported(ValueError):
    """A row is not one of an export; says which columns are wrong and why."""


class Exported(NamedTuple):
    item: EpisodeEnded
    offset: int
    """Its place in the recording."""
    fate: str | None
    """None where nothing was decided of it, or another ending of the episode counted."""
    group_size: int | None
    size_bytes: int = 0
    """What it takes in memory, roughly; 0 where that was not asked."""


def exported(row: Mapping[str, object]) -> Exported:
    """Raises `NotExported`."""
    try:
        read = _Row.model_validate(row)
        item = _ended(read)
    except ValidationError as error:
        raise NotExported("; ".join(explain(error, _Row)[:MOST_TOLD])) from error
    except ValueError as error:
        raise NotExported(str(error)) from error
    fate = None if read.fate == "superseded" else read.fate
    return Exported(item, read.offset, fate, read.group_size)


def replayable(row: Mapping[str, object]) -> Exported:
    """Raises `NotExported` where a file with this row can't be replayed."""
    found = exported(row)
    if found.fate is not None and found.group_size is None:
        raise NotExported("group_size is missing: the file is of an older Warren; export it again")
    if found.group_size is not None:
        _require_group(found.item.spec, found.group_size)
    return found._replace(size_bytes=_size_bytes(row, found.item.transcript))


def _size_bytes(row: Mapping[str, object], transcript: Transcript) -> int:
    """Its JSON, and the objects that short pieces of it become."""
    n_messages = sum(len(branch.messages) for branch in transcript.branches)
    n_objects = len(transcript.turns) + len(transcript.branches) + n_messages
    return len(orjson.dumps(row)) + _OBJECT_BYTES * n_objects


def _require_group(spec: EpisodeSpec, size: int) -> None:
    """Whoever replays it makes room for all members of the group, and names rows of its own after it."""
    if not can_be_id(spec.group):
        raise NotExported(
            "spec: the id of a group is 1 to 64 letters, digits, _ and -, and this one is"
            f" {spec.group[:_MOST_CHARS]!r}"
        )
    if spec.purpose is EpisodePurpose.TRAIN and size > MAX_GROUP_SIZE:
        raise NotExported(f"group_size: a group has at most {MAX_GROUP_SIZE} episodes, not {size}")
    most = 1 if spec.purpose is EpisodePurpose.DEMONSTRATE else size
    if spec.member >= most:
        raise NotExported(f"spec: member {spec.member} of a group of {most}")


def _pairs(value: object) -> object:
    """A map of parquet is a list of pairs once it is JSON."""
    return dict(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


_Numbers = Annotated[dict[str, float], BeforeValidator(_pairs)]


class _Turn(BaseModel):
    reward: Annotated[float, Field(allow_inf_nan=False)] | None = None
    is_cut: bool = False
    branch: Count = 0


class _Message(BaseModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    n_images: Count = 0
    is_quoted: bool = False
    branch: Count = 0


class _Row(BaseModel):
    """The columns that an episode is made from; others may stand beside them."""

    run: str
    offset: Annotated[int, Field(ge=0)]
    episode: str
    attempt: Annotated[int, Field(ge=1)]
    group_size: Annotated[int, Field(ge=1)] | None = None
    environment_version: str = ""
    task_number: Annotated[int, Field(ge=0)] | None = None
    task_id: TaskId | None = None
    category: str | None = None
    fate: RecordedFate | Literal["superseded"] | None = None
    outcome: Literal["completed", "failed"]
    reward: Annotated[float, Field(allow_inf_nan=False)] | None = None
    reward_parts: _Numbers = Field(default_factory=dict[str, float])
    metrics: _Numbers = Field(default_factory=dict[str, float])
    turns: list[_Turn]
    stop: StopReason | None = None
    failure: FailureKind | None = None
    reason: str | None = None
    messages: list[_Message]
    started_at: AwareDatetime
    ended_at: AwareDatetime
    reset_s: float = 0.0
    sampler_wait_s: float = 0.0
    sampling_s: float = 0.0
    sampling_gpu_s: float = 0.0
    step_s: float = 0.0
    worker: str
    spec: str
    branch_n_tokens: Annotated[list[Count], Field(max_length=MAX_BRANCHES)]
    branch: Count = 0
    tokenizer: str = ""
    ids_T: list[int]
    mask_T: list[int]
    logprobs_T: list[float]
    versions_T: list[int]
    sampling_mask_sizes_T: list[Count] = Field(default_factory=list[int])
    sampling_mask_ids: list[int] = Field(default_factory=list[int])


def _ended(row: _Row) -> EpisodeEnded:
    spec = EpisodeSpec.model_validate_json(row.spec)
    return EpisodeEnded(
        envelope=Envelope(run=RunId(row.run), episode=EpisodeId(row.episode), attempt=row.attempt),
        spec=spec,
        transcript=_transcript(row, spec),
        outcome=_outcome(row),
        worker=row.worker,
        environment_version=row.environment_version,
        started_s=row.started_at.timestamp(),
        ended_s=row.ended_at.timestamp(),
    )


def _outcome(row: _Row) -> Completed | Failed:
    if row.outcome == "failed":
        kind = row.failure or FailureKind.ENVIRONMENT_ERROR
        return Failed(kind=kind, reason=row.reason or "it failed", retryable=False)
    if any(message.n_images for message in row.messages):
        return Failed(kind=FailureKind.IMAGES_UNSUPPORTED, reason=_NO_IMAGES, retryable=False)
    if row.reward is None:
        raise ValueError("reward: an episode that completed has one")
    parts = {f"{REWARD_PART}{name}": value for name, value in row.reward_parts.items()}
    stop = row.stop or StopReason.DONE
    return Completed(reward=row.reward, stop=stop, metrics=parts | row.metrics)


def _transcript(row: _Row, spec: EpisodeSpec) -> Transcript:
    branches = _branches(row)
    if row.branch >= len(branches):
        raise ValueError(f"branch: there are {len(branches)}, counted from 0")
    current = branches.pop(row.branch)
    unnamed = default_task_id(spec.task.split, spec.task.index, row.task_number)
    return Transcript(
        messages=current.messages,
        n_rendered=current.n_rendered,
        tokens=current.tokens,
        tokenizer=row.tokenizer,
        task_number=row.task_number,
        task_id=None if row.task_id == unnamed else row.task_id,
        category=row.category,
        turns=tuple(
            Turn(reward=turn.reward, digest="", is_cut=turn.is_cut, branch=turn.branch)
            for turn in row.turns
        ),
        times=EpisodeTimes(
            reset_s=row.reset_s,
            sampler_wait_s=row.sampler_wait_s,
            sampling_s=row.sampling_s,
            sampling_gpu_s=row.sampling_gpu_s,
            step_s=row.step_s,
        ),
        branch=row.branch,
        set_aside=tuple(branches),
    )


def _branches(row: _Row) -> list[Branch]:
    """Each with its own messages and tokens, which lie one after another."""
    if sum(row.branch_n_tokens) != len(row.ids_T):
        raise ValueError(
            f"branch_n_tokens: they add up to {sum(row.branch_n_tokens)}, and ids_T has {len(row.ids_T)}"
        )
    ends = np.cumsum(row.branch_n_tokens, dtype=np.int64).tolist()
    masks = list(accumulate(row.sampling_mask_sizes_T, initial=0))
    said = defaultdict[int, list[ChatMessage]](list)
    for message in row.messages:
        said[message.branch].append(_said(message))
    branches: list[Branch] = []
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        messages = tuple(said[number])
        tokens = _tokens(row, slice(start, end), masks)
        branches.append(
            Branch(number=number, messages=messages, n_rendered=len(messages), tokens=tokens)
        )
    return branches


def _said(message: _Message) -> ChatMessage:
    return ChatMessage(role=message.role, content=message.content, is_quoted=message.is_quoted)


def _tokens(row: _Row, part: slice, masks: Sequence[int]) -> Tokens:
    return Tokens.model_validate(
        {
            "ids_T": row.ids_T[part],
            "mask_T": row.mask_T[part],
            "logprobs_T": row.logprobs_T[part],
            "versions_T": row.versions_T[part],
            "sampling_mask": _sampling_mask(row, part, masks),
        }
    )


def _sampling_mask(row: _Row, part: slice, masks: Sequence[int]) -> SamplingMask | None:
    """`masks`: where that of each token begins in `sampling_mask_ids`, and after them the end of the last."""
    sizes: Sequence[int] = row.sampling_mask_sizes_T
    if not sizes:
        return None
    start, end, _ = part.indices(len(sizes))
    return SamplingMask.model_validate(
        {"sizes_N": list(sizes[part]), "ids_S": row.sampling_mask_ids[masks[start] : masks[end]]}
    )
