"""A live agent: its calls of the model meet the turns of its episode.

The endpoint brings questions, the environment takes one at a time and brings answers. Invariants: an
episode has one question with the policy at a time, others wait in their order; a question that is asked
again because its answer got lost is answered with the same answer, and nothing is sampled for it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from warren.agents.conversation import Answer, Message, Question
from warren.agents.other_models import OtherModel

MODEL = "policy"
"""What the policy is called where an agent must name a model."""

_NONE: Mapping[str, OtherModel] = {}
KeyT = TypeVar("KeyT")

MAX_REMEMBERED = 64
"""Answers that can be had again."""


class EpisodeOver(Exception):
    """There is nobody left to ask; says why."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """How a question tells that it was asked before."""

    digest: bytes
    """Of its route and body."""
    key: str | None = None
    """The client's own, for all tries of one call."""
    is_retry: bool = False
    """The client says so."""


@dataclass(slots=True, eq=False)
class Asked:
    """A question that was asked."""

    question: Question
    answer: "asyncio.Future[Answer]"
    n_waiting: int = 0
    """Connections that wait for the answer."""
    was_told: bool = False


class LiveAgent:
    def __init__(self, other_models: Mapping[str, OtherModel] = _NONE) -> None:
        self.other_models = other_models
        """By the names that the agent calls them; all other names are the policy's."""
        self._waiting: asyncio.Queue[Asked] = asyncio.Queue()
        self._asked: OrderedDict[bytes, Asked] = OrderedDict()
        self._by_key: OrderedDict[str, Asked] = OrderedDict()
        self._unanswered: set[asyncio.Future[Answer]] = set()
        self._over: str | None = None
        self.by_id: dict[str, tuple[Message, ...]] = {}
        """What was said up to each answer, without the instructions of its request, for dialects that name it:
        Responses."""

    async def ask(self, question: Question, repeat: Repeat) -> Answer:
        """Raises `EpisodeOver`."""
        if self._over is not None:
            raise EpisodeOver(self._over)
        asked = self._known(repeat) or self._new(question, repeat)
        asked.n_waiting += 1
        try:
            answer = await asyncio.shield(asked.answer)
        finally:
            asked.n_waiting -= 1
        asked.was_told = True
        return answer

    async def next_question(self) -> Asked:
        return await self._waiting.get()

    def end(self, reason: str) -> None:
        """Nothing is answered any more."""
        self._over = reason
        for answer in self._unanswered:
            answer.set_exception(EpisodeOver(reason))
            answer.exception()  # seen: perhaps nobody waits

    def _known(self, repeat: Repeat) -> Asked | None:
        """The same question if its answer was not told, or the client says that it asks again."""
        if repeat.key is not None:
            return self._by_key.get(repeat.key)
        asked = self._asked.get(repeat.digest)
        if asked is None or repeat.is_retry:
            return asked
        return None if asked.n_waiting or asked.was_told else asked

    def _new(self, question: Question, repeat: Repeat) -> Asked:
        asked = Asked(question, asyncio.get_running_loop().create_future())
        self._unanswered.add(asked.answer)
        asked.answer.add_done_callback(self._unanswered.discard)
        _remember(self._asked, repeat.digest, asked)
        if repeat.key is not None:
            _remember(self._by_key, repeat.key, asked)
        self._waiting.put_nowait(asked)
        return asked


def _remember(asked: OrderedDict[KeyT, Asked], key: KeyT, new: Asked) -> None:
    asked.pop(key, None)
    asked[key] = new
    while len(asked) > MAX_REMEMBERED and next(iter(asked.values())).answer.done():
        asked.popitem(last=False)
