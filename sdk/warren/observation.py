"""What an environment shows the policy before its next turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from warren_schemas.transcript import ChatMessage


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """Tokens of the policy's vocabulary, one or more: it sees exactly these behind what it saw and said so far. No chat
    template is applied, and nothing is added."""

    ids: Sequence[int]


Observation = str | Sequence[ChatMessage] | PromptTokens
"""What the policy is shown: a text (one `user` message; empty for none), or chat messages of the
roles system, user and tool, which may hold images, or tokens. `assistant` is the policy's own role: a message of it is
taken where it says `is_quoted`, that the policy did not say this here."""
