"""A reward from an HTTP endpoint, asked for as many episodes at once as end together.

    POST url  {"episodes": [{"messages": […], "response": …, "gold": …, "own_reward": …,
                             "data_source": …, "metrics": {…}}, …]}
    200       {"rewards": [1.0, 0.5, null, …]}     null: this one can't be scored

Invariants: a busy or failing service (429, 5xx, no connection) is asked again with growing pauses,
and as late as it asks for; what it does not answer in the end is `RewardFailed` and never a 0; nothing
of an answer but its rewards, and no key, ever appears in a message (`reach.service`).
"""

import asyncio
import logging
from typing import cast

from warren_env_worker.reach.service import FAILED, Service, ServiceFailed, ServiceSession
from warren_env_worker.rewards.function import finite
from warren_env_worker.rewards.scored import RewardFailed, Scored
from warren_schemas.config import ServiceReward

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0

log = logging.getLogger(__name__)

_Waiting = tuple[Scored, "asyncio.Future[float]"]


class RewardService:
    """For one event loop."""

    def __init__(
        self, service: Service, settings: ServiceReward, *, first_pause_s: float = FIRST_PAUSE_S
    ) -> None:
        self._service = service
        self._first_pause_s = first_pause_s
        self._settings = settings
        self._waiting: list[_Waiting] = []
        self._requests: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(settings.in_flight)

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
            async with self._slots:
                rewards = await self._asked([_as_json(scored) for scored, _ in batch])
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

    async def _asked(self, episodes: list[dict[str, object]]) -> list[object]:
        settings = self._settings
        async with self._service.session(settings.timeout_s) as session:
            for number in range(settings.tries):
                try:
                    return await self._posted(session, episodes)
                except ServiceFailed as error:
                    if not error.is_passing:
                        break
                    asked_s = error.pause_s
                if number + 1 < settings.tries:
                    pause_s = max(self._first_pause_s * 2**number, asked_s)
                    await asyncio.sleep(min(pause_s, LONGEST_PAUSE_S))
        raise RewardFailed(f"{settings.url}: {FAILED}")

    async def _posted(
        self, session: ServiceSession, episodes: list[dict[str, object]]
    ) -> list[object]:
        url = self._settings.url
        reply = await session.post({"episodes": episodes})
        rewards = (
            cast("dict[str, object]", reply).get("rewards") if isinstance(reply, dict) else None
        )
        if not isinstance(rewards, list):
            raise RewardFailed(f'{url} did not answer {{"rewards": […]}}')
        listed = cast("list[object]", rewards)
        if len(listed) != len(episodes):
            raise RewardFailed(f"{url} did not answer with {len(episodes)} rewards")
        return listed


def _as_json(scored: Scored) -> dict[str, object]:
    messages = [{"role": m.role, "content": m.content} for m in scored.messages]
    fields = {"response": scored.response, "gold": scored.gold, "own_reward": scored.own_reward}
    return {
        "messages": messages,
        **fields,
        "data_source": scored.data_source,
        "metrics": dict(scored.metrics),
    }
