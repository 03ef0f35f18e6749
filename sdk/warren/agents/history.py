"""Where a question stands in its episode: behind the action whose history it extends, else at a new beginning.

An agent sends its whole history with each call, in messages or in tokens. Invariant: what it has as it was shown and
answered is never shown anew; where it wrote anything anew, the question goes on from the last action before that.
"""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warren.agents.conversation import Message, Question
from warren.environment import Sampled


@dataclass(frozen=True, slots=True)
class Place:
    after: int
    """The action that the question follows; 0 for none."""
    n_known: int
    """So many of its messages, or of its tokens, the policy has seen there."""


_BEGINNING = Place(0, 0)


class History:
    def __init__(self) -> None:
        self._places: dict[bytes, Place] = {}
        """By the digest of all that was said up to an action, that included."""
        self._tokens: dict[bytes, Place] = {}
        """By that of all tokens up to an action's last one."""
        self._lengths: set[int] = set()
        """Of those, in tokens."""

    def place_of(self, question: Question) -> Place:
        if question.ids:
            return self._place_of_tokens(question.ids)
        digests = _digests(question.messages, question)
        found = (self._places.get(digest) for digest in reversed(digests))
        return next((place for place in found if place is not None), _BEGINNING)

    def note(self, question: Question, said: Message, turn: int, sampled: Sampled) -> None:
        """The question was answered by the action of this number."""
        if not question.ids:
            messages = (*question.messages, said)
            self._places[_digests(messages, question)[-1]] = Place(turn, len(messages))
        if sampled.ids:
            ids = array("i", sampled.prompt_ids)
            ids.extend(sampled.ids)
            (digest,) = _digests_at([len(ids)], ids)
            self._tokens[digest] = Place(turn, len(ids))
            self._lengths.add(len(ids))

    def _place_of_tokens(self, ids: Sequence[int]) -> Place:
        """Something of the tokens must be new there: two actions need a token between them to be told apart."""
        lengths = sorted(n for n in self._lengths if n < len(ids))
        found = (self._tokens.get(digest) for digest in reversed(_digests_at(lengths, ids)))
        return next((place for place in found if place is not None), _BEGINNING)


def _digests(messages: tuple[Message, ...], question: Question) -> list[bytes]:
    """Of each beginning of the messages; with other tools it is another conversation."""
    so_far = repr([(tool.name, tool.about, tool.parameters) for tool in question.tools]).encode()
    digests: list[bytes] = []
    for message in messages:
        so_far = hashlib.blake2b(so_far + message.key.encode(), digest_size=16).digest()
        digests.append(so_far)
    return digests


def _digests_at(lengths: Iterable[int], ids: Sequence[int]) -> list[bytes]:
    """Of the beginnings of the tokens that have these lengths, which rise."""
    packed = memoryview(array("i", ids)).cast("B")
    so_far, begin, digests = hashlib.blake2b(digest_size=16), 0, list[bytes]()
    for n_tokens in lengths:
        end = n_tokens * packed.nbytes // len(ids)
        so_far.update(packed[begin:end])
        digests.append(so_far.digest())
        begin = end
    return digests
