"""An episode that has ended, as what judges it is told of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from warren_schemas.transcript import ChatMessage

Ending = Literal["done", "truncated", "max_turns", "max_total_tokens"]
"""`done`: the environment ended it by what happened, `truncated`: by a limit of its own; `max_turns` and `max_total_tokens` are
those of the run's config, or the model's context."""


@dataclass(frozen=True, slots=True)
class EpisodeTranscript:
    messages: Sequence[ChatMessage]
    """All, in the order in which they were shown and said, those of every conversation of the episode."""
    rewards: Sequence[float | None] = ()
    """Of each turn, as far as it got one."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """The last value of each name."""
    ending: Ending = "done"

    @property
    def actions(self) -> Sequence[str]:
        """What the policy said, turn by turn."""
        return [message.content for message in self.messages if message.is_action]

    @property
    def response(self) -> str:
        """The policy's last words."""
        return self.actions[-1]

    @property
    def reward(self) -> float | None:
        """The sum of the turns' rewards; None where there was none, which is not a reward of 0."""
        given = [reward for reward in self.rewards if reward is not None]
        return sum(given) if given else None
