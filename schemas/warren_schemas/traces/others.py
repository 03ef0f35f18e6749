"""A trace that others recorded as a row of an export: what it does not tell is the same for all of them.

- `metadata.reward` is the reward of the episode, as OpenEnv mirrors it on each call. Without one nothing is made up: the trace is a
  demonstration, or, as the member of a group, an episode that failed.
- `metadata.group`, `member` and `group_size` say which traces are compared; a trace without them is a group of its own.
- `metadata.sampling_params` says from what distribution the tokens were sampled.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from warren_schemas.config import Sampling
from warren_schemas.episode import (
    EpisodePurpose,
    EpisodeSpec,
    FailureKind,
    PolicyRef,
    StopReason,
    TaskRef,
)
from warren_schemas.exports.rows import Row
from warren_schemas.ids import GroupId, ModelId
from warren_schemas.text.explain import explain
from warren_schemas.traces.messages import conversation_messages, is_cut
from warren_schemas.traces.sequences import columns, of_others
from warren_schemas.traces.shape import NotATrace, TrainingTurn

NAME = "openenv"
"""What their run, environment, worker and policy are called here."""
_EPOCH = "1970-01-01T00:00:00Z"
_WAYS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_UNKNOWN_WAYS = ("frequency_penalty", "presence_penalty", "logit_bias")
"""No trainer here computes the distribution that they make."""


class _Told(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    reward: float | None = None
    group: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    member: Annotated[int, Field(ge=0)] | None = None
    group_size: Annotated[int, Field(ge=1)] | None = None
    sampling_params: dict[str, Any] = Field(default_factory=dict[str, Any])

    @property
    def purpose(self) -> EpisodePurpose:
        is_compared = self.group is not None or self.reward is not None
        return EpisodePurpose.TRAIN if is_compared else EpisodePurpose.DEMONSTRATE


def others_row(turns: Sequence[TrainingTurn], number: int) -> Row:
    """`number`: of its line, counted from 1. Raises `NotATrace`."""
    told = _told(turns)
    group = told.group or f"trace_{number}"
    conversations, numbers = of_others(turns)
    return {
        "run": NAME,
        "offset": number - 1,
        "episode": f"{group}.{told.member or 0}",
        "attempt": 1,
        "group_size": told.group_size or 1,
        "task_id": told.group,
        "fate": "trained",
        **_outcome(told),
        "turns": _turns(turns, numbers, told.reward),
        "messages": conversation_messages(turns, numbers),
        "started_at": _EPOCH,
        "ended_at": _EPOCH,
        "worker": NAME,
        "spec": _spec(told, group, number, len(turns)).model_dump_json(),
        "branch": numbers[-1],
        **columns(conversations),
    }


def _told(turns: Sequence[TrainingTurn]) -> _Told:
    """What the metadata of the turns say, which must agree."""
    said: dict[str, object] = {}
    for number, turn in enumerate(turns):
        for key in _Told.model_fields:
            value = _value(turn.metadata, key)
            if value is not None and said.setdefault(key, value) != value:
                raise NotATrace(f"turns.{number}.metadata.{key}: an earlier turn says otherwise")
    try:
        told = _Told.model_validate(said)
    except ValidationError as error:
        raise NotATrace("; ".join(f"metadata.{line}" for line in explain(error, _Told))) from error
    given = [value is not None for value in (told.group, told.member, told.group_size)]
    if any(given) and not all(given):
        raise NotATrace(
            "metadata: group, member and group_size are given together: which traces are compared, which"
            " of them this is, counted from 0, and how many there are"
        )
    return told


def _value(metadata: Mapping[str, object], key: str) -> object:
    """Of `sampling_params` what the distribution depends on: a turn may have a seed or a limit of its own."""
    value = metadata.get(key)
    if key != "sampling_params" or not isinstance(value, dict):
        return value
    params = cast("dict[str, object]", value)
    return {name: params[name] for name in (*_WAYS, *_UNKNOWN_WAYS) if name in params}


def _outcome(told: _Told) -> Row:
    if told.reward is None and told.purpose is EpisodePurpose.TRAIN:
        kind, reason = FailureKind.NO_REWARD.value, "the trace has no reward"
        return {"outcome": "failed", "failure": kind, "reason": reason, "reward": None}
    stop = StopReason.DONE.value
    return {"outcome": "completed", "reward": told.reward or 0.0, "stop": stop}


def _turns(
    turns: Sequence[TrainingTurn], numbers: Sequence[int], reward: float | None
) -> list[Row]:
    """The reward came at the end."""
    rows: list[Row] = [
        {"reward": None, "is_cut": is_cut(turn), "branch": number}
        for turn, number in zip(turns, numbers, strict=True)
    ]
    rows[-1]["reward"] = reward
    return rows


def _spec(told: _Told, group: str, number: int, n_turns: int) -> EpisodeSpec:
    index = number - 1 if told.group is None else crc32(told.group.encode())
    return EpisodeSpec(
        group=GroupId(group),
        member=told.member or 0,
        purpose=told.purpose,
        environment=NAME,
        task=TaskRef(index=index),
        seed=0,
        policy=PolicyRef(model=ModelId(NAME), base_model=NAME, min_version=0),
        sampling=_sampling(told.sampling_params),
        max_turns=n_turns,
    )


def _sampling(params: Mapping[str, object]) -> Sampling:
    if changed := [name for name in _UNKNOWN_WAYS if params.get(name)]:
        raise NotATrace(
            f"metadata.sampling_params: {', '.join(changed)} changes what was sampled from, and can't be"
            " corrected for in training"
        )
    given = {name: params[name] for name in _WAYS if params.get(name) is not None}
    if given.get("top_k") == -1:  # vLLM's word for all
        given["top_k"] = 0
    try:
        return Sampling.model_validate(given)
    except ValidationError as error:
        told = "; ".join(explain(error, Sampling))
        raise NotATrace(f"metadata.sampling_params: {told}") from error
