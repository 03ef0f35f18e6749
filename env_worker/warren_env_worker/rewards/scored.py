"""What there is to be rewarded, and what may go wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson
from pydantic import TypeAdapter

from warren.environment import ChatMessage, EpisodeTranscript
from warren_schemas.episode import FailureKind


class RewardFailed(Exception):
    """A part of the reward can't be had. The episode fails; it does not get a 0 for it."""

    def __init__(
        self,
        reason: str,
        kind: FailureKind = FailureKind.REWARD_FAILED,
        *,
        is_retryable: bool = True,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.is_retryable = is_retryable


@dataclass(frozen=True, slots=True)
class Scored:
    """An episode that has ended."""

    messages: tuple[ChatMessage, ...]
    """All of them, from the prompt to the last words."""
    response: str
    """The policy's last words."""
    gold: str | None
    """The right answer, if there is one. It must not find its way into what the policy sees."""
    own_reward: float | None
    """What the environment itself gives; None where it gives none, which is not a reward of 0."""
    data_source: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    run: str = ""

    def to_json(self) -> str:
        return orjson.dumps(self, default=_plain).decode()

    @staticmethod
    def from_json(text: str) -> "Scored":
        return _SCORED.validate_json(text)


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """The episodes of a group, which have all ended."""

    transcripts: Sequence[EpisodeTranscript]
    run: str = ""

    def to_json(self) -> str:
        return orjson.dumps(self, default=_plain).decode()

    @staticmethod
    def from_json(text: str) -> "ScoredGroup":
        return _GROUP.validate_json(text)


_SCORED = TypeAdapter(Scored)
_GROUP = TypeAdapter(ScoredGroup)


def _plain(value: ChatMessage) -> object:
    return value.model_dump(mode="json", exclude_defaults=True) | {"role": value.role}
