"""Where a question stands in its episode: behind the action whose history it extends, else at a new beginning.

An agent sends its whole history with each call. Invariant: what it has as it was shown and answered is
never shown anew; where it wrote anything anew, the question goes on from the last action before that.
"""

import hashlib
from dataclasses import dataclass

from warren.agents.conversation import Message, Question


@dataclass(frozen=True, slots=True)
class Place:
    after: int
    """The action that the question follows; 0 for none."""
    n_known: int
    """So many of its messages the policy has seen there."""


_BEGINNING = Place(0, 0)


class History:
    def __init__(self) -> None:
        self._places: dict[bytes, Place] = {}
        """By the digest of all that was said up to an action, that included."""

    def place_of(self, question: Question) -> Place:
        digests = _digests(question.messages, question)
        found = (self._places.get(digest) for digest in reversed(digests))
        return next((place for place in found if place is not None), _BEGINNING)

    def note(self, question: Question, said: Message, turn: int) -> None:
        """The question was answered by the action of this number."""
        messages = (*question.messages, said)
        self._places[_digests(messages, question)[-1]] = Place(turn, len(messages))


def _digests(messages: tuple[Message, ...], question: Question) -> list[bytes]:
    """Of each beginning of the messages; with other tools it is another conversation."""
    so_far = repr([(tool.name, tool.about, tool.parameters) for tool in question.tools]).encode()
    digests: list[bytes] = []
    for message in messages:
        so_far = hashlib.blake2b(so_far + message.key.encode(), digest_size=16).digest()
        digests.append(so_far)
    return digests
