"""A language model as a judge, behind an OpenAI-compatible endpoint.

    POST url/chat/completions  {"model": …, "messages": [{"role": "user", "content": …}], …}
    200                        {"choices": [{"message": {"content": "8 of 10"}}], "usage": {"total_tokens": 90}}

Invariants: the same question is asked once, also while its answer is under way, as long as it is remembered; one that fails
is not remembered. No request is made beyond the budget. What has no score in the end is `RewardFailed` and never a 0;
nothing of an answer, and no key, ever appears in a message (`permissions.service`).
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar, cast

import orjson

from warren_env_worker.permissions.service import FAILED, Service, ServiceFailed, ServiceSession
from warren_env_worker.rewards.questions import (
    group_prompt,
    prompt,
    request,
    score_in,
    scores_in,
)
from warren_env_worker.rewards.scored import RewardFailed, Scored, ScoredGroup
from warren_schemas.config import GroupJudgeReward, JudgePart, JudgeReward

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0

AskedT = TypeVar("AskedT")
"""What is judged."""
SaidT = TypeVar("SaidT")
"""What comes of it: a score, or one for each episode of a group."""


@dataclass(slots=True)
class Spent:
    """What a run has asked of a judge, in this process."""

    n_requests: int = 0
    n_tokens: int = 0

    def take_request(self, settings: JudgePart) -> None:
        """Count one more. Raises `RewardFailed` where there is none left."""
        for key, spent in (("max_requests", self.n_requests), ("max_total_tokens", self.n_tokens)):
            most: int | None = getattr(settings, key)
            if most is not None and spent >= most:
                raise RewardFailed(
                    f"the run has spent its {key} of {most} on this env worker", is_retryable=False
                )
        self.n_requests += 1


@dataclass(frozen=True)
class Way(Generic[AskedT, SaidT]):
    """How something is judged."""

    prompt: Callable[[AskedT], str]
    read: Callable[[AskedT, str], SaidT | None]
    """What the judge's words mean; None where they mean nothing."""
    kind: str
    """Of the score that is looked for."""


class Judge(Generic[AskedT, SaidT]):
    """For one event loop, and one run."""

    def __init__(
        self,
        service: Service,
        settings: JudgePart,
        spent: Spent,
        way: Way[AskedT, SaidT],
        *,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._service = service
        self._settings = settings
        self._spent = spent
        self._way = way
        self._first_pause_s = first_pause_s
        self._slots = asyncio.Semaphore(settings.in_flight)
        self._scores: OrderedDict[bytes, SaidT] = OrderedDict()
        """By digest of the question; the one that was asked for last comes last."""
        self._asking: dict[tuple[bytes, int], asyncio.Task[SaidT]] = {}
        """By digest; where nothing is remembered, by a number as well."""
        self._numbers = count(1)

    @property
    def is_idle(self) -> bool:
        return not self._asking

    async def score(self, scored: AskedT) -> SaidT:
        """Raises `RewardFailed`."""
        body = request(self._settings, self._way.prompt(scored))
        digest = hashlib.blake2b(orjson.dumps(body), digest_size=16).digest()
        if digest in self._scores:
            self._scores.move_to_end(digest)
            return self._scores[digest]
        key = (digest, 0 if self._settings.cache else next(self._numbers))
        if key not in self._asking:
            self._asking[key] = asyncio.create_task(self._asked(scored, body, digest), name="judge")
            self._asking[key].add_done_callback(partial(self._forget, key))
        return await asyncio.shield(self._asking[key])  # others may wait for it, too

    def _forget(self, key: tuple[bytes, int], asked: asyncio.Task[SaidT]) -> None:
        del self._asking[key]
        if not asked.cancelled():
            asked.exception()  # whoever waited has it; there may be nobody any more

    async def _asked(self, scored: AskedT, body: dict[str, object], digest: bytes) -> SaidT:
        async with self._slots:
            score = await self._within_time(scored, body)
        self._scores[digest] = score
        while len(self._scores) > self._settings.cache:
            self._scores.popitem(last=False)
        return score

    async def _within_time(self, scored: AskedT, body: dict[str, object]) -> SaidT:
        settings = self._settings
        try:
            async with (
                asyncio.timeout(settings.deadline_s),
                self._service.session(2 * settings.deadline_s) as session,
            ):
                return await self._tried(session, scored, body)
        except TimeoutError as error:
            reason = f"{settings.model} gave no score within {settings.deadline_s:g} s"
            raise RewardFailed(reason) from error

    async def _tried(
        self, session: ServiceSession, scored: AskedT, body: dict[str, object]
    ) -> SaidT:
        settings, reason = self._settings, ""
        for number in range(settings.tries):
            self._spent.take_request(settings)
            try:
                score = self._way.read(scored, self._content(await session.post(body)))
            except ServiceFailed as error:
                reason = f"{settings.url}: {FAILED}"
                if not error.is_passing:
                    break
                await self._pause(number, error.pause_s)
            else:
                if score is not None:
                    return score
                reason = f"{settings.model} gave no score (score: {self._way.kind}), asked {number + 1} times"
        raise RewardFailed(reason)

    async def _pause(self, n_failed: int, asked_for_s: float) -> None:
        """None after the last try. A server that wants a longer one gets it, as far as there is time."""
        if n_failed + 1 < self._settings.tries:
            grown_s = min(self._first_pause_s * 2**n_failed, LONGEST_PAUSE_S)
            await asyncio.sleep(max(grown_s, asked_for_s))

    def _content(self, reply: object) -> str:
        """What the judge said. Raises `RewardFailed` where it is no reply of this protocol."""
        try:
            fields = cast("dict[str, Any]", reply)
            usage: dict[str, Any] = fields.get("usage") or {}
            self._spent.n_tokens += int(usage.get("total_tokens") or 0)
            said = fields["choices"][0]["message"]["content"]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RewardFailed(
                f"{self._settings.url} did not answer as a chat endpoint does"
            ) from error
        return said if isinstance(said, str) else ""


def judge_of_episodes(
    service: Service, settings: JudgeReward, spent: Spent, *, first_pause_s: float = FIRST_PAUSE_S
) -> Judge[Scored, float]:
    way = Way[Scored, float](
        prompt=lambda scored: prompt(settings.prompt, scored),
        read=lambda _, answer: score_in(answer, settings.score),
        kind=settings.score.kind,
    )
    return Judge(service, settings, spent, way, first_pause_s=first_pause_s)


def judge_of_groups(
    service: Service,
    settings: GroupJudgeReward,
    spent: Spent,
    *,
    first_pause_s: float = FIRST_PAUSE_S,
) -> Judge[ScoredGroup, list[float]]:
    way = Way[ScoredGroup, list[float]](
        prompt=lambda group: group_prompt(settings.prompt, group),
        read=lambda group, answer: scores_in(answer, settings.score, len(group.transcripts)),
        kind=settings.score.kind,
    )
    return Judge(service, settings, spent, way, first_pause_s=first_pause_s)
