"""A reward from an HTTP endpoint, asked for as many episodes at once as end together.

    POST url  {"episodes": [{"messages": […], "response": …, "gold": …, "own_reward": …,
                             "data_source": …, "metrics": {…}}, …]}
    200       {"rewards": [1.0, 0.5, null, …]}     null: this one can't be scored

Or, to compare the episodes of a group, for all of these at once:

    POST url  {"group": [{"messages": […], "response": …, "rewards": [0.0, null, …], "reward": …,
                          "metrics": {…}, "ending": "done"}, …]}
    200       {"rewards": [1.0, 0.5, …]}           one for each

Invariants: a busy or failing service (429, 5xx, no connection) is asked again with growing pauses,
and as late as it asks for; what it does not answer in the end is `RewardFailed` and never a 0; nothing
of an answer but its rewards, and no key, ever appears in a message (`permissions.service`).
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import cast

from warren.environment import ChatMessage, EpisodeTranscript
from warren_env_worker.permissions.service import FAILED, Service, ServiceFailed
from warren_env_worker.rewards.function import finite
from warren_env_worker.rewards.scored import RewardFailed, Scored, ScoredGroup
from warren_schemas.config import GroupServiceReward, ServicePart, ServiceReward

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0

log = logging.getLogger(__name__)

_Waiting = tuple[Scored, "asyncio.Future[float]"]


class _Endpoint:
    """Asked for a list of rewards at a time, by no more than `in_flight` requests at once."""

    def __init__(self, service: Service, settings: ServicePart, first_pause_s: float) -> None:
        self._service = service
        self._settings = settings
        self._first_pause_s = first_pause_s
        self._slots = asyncio.Semaphore(settings.in_flight)

    async def rewards(self, body: dict[str, object], n: int) -> list[object]:
        """So many. Raises `RewardFailed`."""
        settings = self._settings
        async with self._slots, self._service.session(settings.timeout_s) as session:
            for number in range(settings.tries):
                try:
                    return self._listed(await session.post(body), n)
                except ServiceFailed as error:
                    if not error.is_passing:
                        break
                    asked_s = error.pause_s
                if number + 1 < settings.tries:
                    pause_s = max(self._first_pause_s * 2**number, asked_s)
                    await asyncio.sleep(min(pause_s, LONGEST_PAUSE_S))
        raise RewardFailed(f"{settings.url}: {FAILED}")

    def _listed(self, reply: object, n: int) -> list[object]:
        url = self._settings.url
        rewards = (
            cast("dict[str, object]", reply).get("rewards") if isinstance(reply, dict) else None
        )
        if not isinstance(rewards, list):
            raise RewardFailed(f'{url} did not answer {{"rewards": […]}}')
        listed = cast("list[object]", rewards)
        if len(listed) != n:
            raise RewardFailed(f"{url} did not answer with {n} rewards")
        return listed


class GroupRewardService:
    """For one event loop. A group is compared by one request, and has a reward for each episode or none."""

    def __init__(
        self,
        service: Service,
        settings: GroupServiceReward,
        *,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._url = settings.url
        self._endpoint = _Endpoint(service, settings, first_pause_s)
        self._n_asking = 0

    @property
    def is_idle(self) -> bool:
        return self._n_asking == 0

    async def score(self, scored: ScoredGroup) -> list[float]:
        """Raises `RewardFailed`."""
        group = [_member_as_json(each) for each in scored.transcripts]
        self._n_asking += 1
        try:
            rewards = await self._endpoint.rewards({"group": group}, len(group))
        finally:
            self._n_asking -= 1
        return [finite(reward, self._url) for reward in rewards]


class RewardService:
    """For one event loop."""

    def __init__(
        self, service: Service, settings: ServiceReward, *, first_pause_s: float = FIRST_PAUSE_S
    ) -> None:
        self._settings = settings
        self._endpoint = _Endpoint(service, settings, first_pause_s)
        self._waiting: list[_Waiting] = []
        self._requests: set[asyncio.Task[None]] = set()

    @property
    def is_idle(self) -> bool:
        return not (self._waiting or self._requests)

    async def score(self, scored: Scored) -> float:
        """Raises `RewardFailed`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[float] = loop.create_future()
        self._waiting.append((scored, future))
        if len(self._waiting) == 1:  # what else ends in this turn of the loop goes along
            loop.call_soon(self._send)
        return await future

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), self._settings.batch):
            batch = waiting[start : start + self._settings.batch]
            request = asyncio.create_task(self._answer(batch), name="reward request")
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)

    async def _answer(self, batch: list[_Waiting]) -> None:
        try:
            episodes = [_as_json(scored) for scored, _ in batch]
            rewards = await self._endpoint.rewards({"episodes": episodes}, len(batch))
            outcomes = [self._outcome(reward) for reward in rewards]
        except RewardFailed as error:
            outcomes = [error] * len(batch)
        except Exception:  # those who wait must hear of whatever it is
            log.exception("%s could not be asked", self._settings.url)
            reason = f"{self._settings.url}: {FAILED}"
            outcomes = [RewardFailed(reason)] * len(batch)
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if future.done():  # nobody waits any more
                continue
            if isinstance(outcome, RewardFailed):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _outcome(self, reward: object) -> float | RewardFailed:
        try:
            return finite(reward, self._settings.url)
        except RewardFailed as error:
            return error


def _as_json(scored: Scored) -> dict[str, object]:
    fields = {"response": scored.response, "gold": scored.gold, "own_reward": scored.own_reward}
    return {
        "messages": _messages(scored.messages),
        **fields,
        "data_source": scored.data_source,
        "metrics": dict(scored.metrics),
    }


def _member_as_json(member: EpisodeTranscript) -> dict[str, object]:
    return {
        "messages": _messages(member.messages),
        "response": member.response,
        "rewards": list(member.rewards),
        "reward": member.reward,
        "metrics": dict(member.metrics),
        "ending": member.ending,
    }


def _messages(messages: Sequence[ChatMessage]) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in messages]
