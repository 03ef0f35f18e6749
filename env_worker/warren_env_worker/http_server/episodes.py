"""Which episodes are live, and what each request was answered.

Invariants: a request that comes again is answered as the first time, and nothing is played twice; requests of one
episode are answered one after the other. An episode that is not here is 404. What is silent for `idle_s` is forgotten, no
more than `capacity` are live, and of those that are over the last `max_finished` are remembered.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from warren_env_worker.host.protocol import Message, Observed
from warren_env_worker.http_server.bodies import Act, Begin
from warren_env_worker.http_server.errors import Refusal, refusal_of
from warren_env_worker.served_episode import Episode, EpisodeFailed

LOOK_S = 5.0
"""How often idle episodes are looked for, at most."""
MAX_FINISHED = 1024
RETRY_AFTER_S = 1
Answer = dict[str, object]


@dataclass(slots=True, eq=False)
class _Served:
    episode: Episode
    answers: list[Answer] = field(default_factory=list[Answer])
    """To its beginning, and to each turn."""
    failure: Refusal | None = None
    """The last answer, to whatever comes after it."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    touched_s: float = field(default_factory=time.monotonic)


class Episodes:
    def __init__(
        self,
        open_episode: Callable[[Begin], Episode],
        *,
        capacity: int,
        idle_s: float,
        max_finished: int = MAX_FINISHED,
    ) -> None:
        self._open = open_episode
        self._capacity = capacity
        self._idle_s = idle_s
        self._max_finished = max_finished
        self._served: OrderedDict[str, _Served] = OrderedDict()
        """The one that was asked for last comes last."""

    async def begin(self, key: str, begin: Begin) -> Answer:
        """Raises `Refusal`, as all do."""
        if key not in self._served:
            self._require_room()
            self._forget_finished()
            self._served[key] = _Served(self._open(begin))
        served = self._get(key)
        async with served.turn:
            if not served.answers and served.failure is None:
                await self._play(served, None)
            return _answer(served, 0)

    async def act(self, key: str, act: Act) -> Answer:
        served = self._get(key)
        async with served.turn:
            if act.turn > len(served.answers):
                raise Refusal(422, f"turn {act.turn} comes before turn {len(served.answers)}")
            if act.turn == len(served.answers) and served.failure is None:
                await self._play(served, act.action)
            return _answer(served, act.turn)

    def delete(self, key: str) -> None:
        """Also one that is not there."""
        if (served := self._served.pop(key, None)) is not None:
            served.episode.close()

    def end(self) -> None:
        """All of them."""
        for key in list(self._served):
            self.delete(key)

    async def expire(self) -> None:
        """Forget what is idle, until cancelled."""
        while True:
            await asyncio.sleep(min(LOOK_S, self._idle_s))
            oldest_s = time.monotonic() - self._idle_s
            for key in [k for k, served in self._served.items() if served.touched_s < oldest_s]:
                self.delete(key)

    def _get(self, key: str) -> _Served:
        if (served := self._served.get(key)) is None:
            raise Refusal(404, "there is no such episode")
        served.touched_s = time.monotonic()
        self._served.move_to_end(key)
        return served

    def _forget_finished(self) -> None:
        over = [key for key, served in self._served.items() if not served.episode.is_live]
        for key in over[: max(0, len(over) - self._max_finished)]:
            self.delete(key)

    def _require_room(self) -> None:
        if sum(served.episode.is_live for served in self._served.values()) >= self._capacity:
            retry = {"Retry-After": str(RETRY_AFTER_S)}
            raise Refusal(503, f"{self._capacity} episodes are live; no more are taken", retry)

    async def _play(self, served: _Served, action: str | None) -> None:
        """The next answer; an episode that fails has none after it."""
        try:
            if action is None:
                served.answers.append(_begun(await served.episode.begin()))
            elif not served.episode.is_live:
                raise EpisodeFailed("the episode is over")
            else:
                served.answers.append(_stepped(await served.episode.act(action)))
        except EpisodeFailed as failed:
            served.failure = refusal_of(failed)
        except Refusal as refused:
            served.episode.close()
            served.failure = refused


def _answer(served: _Served, number: int) -> Answer:
    if number < len(served.answers):
        return served.answers[number]
    assert served.failure is not None
    raise served.failure


def _begun(shown: Observed) -> Answer:
    named = {"task_id": shown.task_id, "category": shown.category}
    return {**_shown(shown), **{key: value for key, value in named.items() if value is not None}}


def _stepped(shown: Observed) -> Answer:
    return {
        **_shown(shown),
        "reward": shown.reward,
        "done": shown.is_over and not shown.is_truncated,
        "truncated": shown.is_truncated,
        "metrics": shown.metrics,
    }


def _shown(shown: Observed) -> Answer:
    demonstrated = {} if shown.demonstration is None else {"demonstration": shown.demonstration}
    return {"messages": [_message(message) for message in shown.messages], **demonstrated}


def _message(message: Message) -> Answer:
    role, content, *pictures = message
    if role == "assistant":
        raise Refusal(500, "it quotes words as the policy's, which this protocol has no words for")
    images = [{"media_type": kind, "base64": data} for of in pictures for kind, data in of]
    return {"role": role, "content": content, **({"images": images} if images else {})}
