"""What there is to be rewarded, and what may go wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warren.environment import ChatMessage


class RewardFailed(Exception):
    """A part of the reward can't be had. The episode fails; it does not get a 0 for it."""


@dataclass(frozen=True, slots=True)
class Scored:
    """An episode that has ended."""

    messages: Sequence[ChatMessage]
    """All of them, from the prompt to the last words."""
    response: str
    """The policy's last words."""
    gold: str | None
    """The right answer, if there is one. It must not find its way into what the policy sees."""
    own_reward: float
    """What the environment itself gives."""
    data_source: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
