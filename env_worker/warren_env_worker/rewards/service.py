"""A reward from an HTTP endpoint, asked for as many episodes at once as end together.

    POST url  {"episodes": [{"messages": […], "response": …, "gold": …, "own_reward": …,
                             "data_source": …, "metrics": {…}}, …]}
    200       {"rewards": [1.0, 0.5, null, …]}     null: this one can't be scored

Invariants: a busy or failing service (429, 5xx, no connection) is asked again with growing pauses,
and as late as it asks for; what it does not answer in the end is `RewardFailed` and never a 0; keys
never appear in a message.
"""

import asyncio
import logging
import os
from typing import cast

import aiohttp

from warren_env_worker.rewards.function import finite
from warren_env_worker.rewards.scored import RewardFailed, Scored
from warren_env_worker.rewards.settings import ServiceReward

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
_TRY_AGAIN = (429, 500, 502, 503, 504)

log = logging.getLogger(__name__)

_Waiting = tuple[Scored, "asyncio.Future[float]"]


class _Busy(Exception):
    """It may work the next time; `pause_s` if it said when."""

    def __init__(self, reason: str, pause_s: float = 0.0) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


class RewardService:
    """For one event loop."""

    def __init__(self, settings: ServiceReward) -> None:
        self._settings = settings
        self._waiting: list[_Waiting] = []
        self._requests: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(settings.in_flight)

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
        except Exception as error:  # those who wait must hear of whatever it is
            log.exception("%s could not be asked", self._settings.url)
            reason = f"{self._settings.url} could not be asked: {type(error).__name__}"
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
        settings, reason = self._settings, ""
        timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
        async with aiohttp.ClientSession(headers=self._headers(), timeout=timeout) as session:
            for number in range(settings.tries):
                try:
                    return await self._posted(session, episodes)
                except (_Busy, aiohttp.ClientError, TimeoutError) as error:
                    reason = str(error) or type(error).__name__
                    asked_s = error.pause_s if isinstance(error, _Busy) else 0.0
                if number + 1 < settings.tries:
                    pause_s = max(FIRST_PAUSE_S * 2**number, asked_s)
                    await asyncio.sleep(min(pause_s, LONGEST_PAUSE_S))
        raise RewardFailed(f"{settings.url} failed {settings.tries} times: {reason}")

    async def _posted(
        self, session: aiohttp.ClientSession, episodes: list[dict[str, object]]
    ) -> list[object]:
        url = self._settings.url
        async with session.post(url, json={"episodes": episodes}) as response:
            if response.status in _TRY_AGAIN:
                after = response.headers.get("Retry-After", "")
                raise _Busy(f"status {response.status}", float(after) if after.isdigit() else 0.0)
            if response.status != 200:
                raise RewardFailed(f"{url} answered with status {response.status}")
            try:
                reply = await response.json(content_type=None)
                rewards: object = reply["rewards"]
            except (ValueError, TypeError, LookupError) as error:
                raise RewardFailed(f'{url} did not answer {{"rewards": […]}}') from error
        listed = cast("list[object]", rewards) if isinstance(rewards, list) else []
        if len(listed) != len(episodes):
            raise RewardFailed(f"{url} did not answer with {len(episodes)} rewards")
        return listed

    def _headers(self) -> dict[str, str]:
        variable = self._settings.key_variable
        if variable is None:
            return {}
        key = os.environ.get(variable, "").strip()
        if not key:
            raise RewardFailed(f"the environment variable {variable} is not set")
        return {"Authorization": f"Bearer {key}"}


def _as_json(scored: Scored) -> dict[str, object]:
    messages = [{"role": m.role, "content": m.content} for m in scored.messages]
    fields = {"response": scored.response, "gold": scored.gold, "own_reward": scored.own_reward}
    return {
        "messages": messages,
        **fields,
        "data_source": scored.data_source,
        "metrics": dict(scored.metrics),
    }
