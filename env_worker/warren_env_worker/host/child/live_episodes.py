"""All live episodes of one class in this process, and what is done with them.

Invariants: every call is answered once, whatever user code raises, unless its task is cancelled, as at
the end of the process; an episode that failed or is over is closed and forgotten; a failing `close` is
logged and harms nobody.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from warren.environment import Env
from warren_env_worker.host.child.caller import Calling
from warren_env_worker.host.child.live_episode import LiveEpisode
from warren_env_worker.host.child.rewards import Rewards
from warren_env_worker.host.child.task_cache import TaskCache, task_of_row
from warren_env_worker.host.protocol import IDLE, Answer, Call, Observed, Refused, Start
from warren_env_worker.host.refusal import Refusal, blame
from warren_env_worker.permissions.secrets import for_run
from warren_env_worker.rewards.scored import ScoredGroup
from warren_schemas.datasets.row_ids import row_id
from warren_schemas.episode import FailureKind

log = logging.getLogger(__name__)


class LiveEpisodes:
    def __init__(
        self,
        environment: type[Env[Any]],
        caller: Calling,
        task_cache: TaskCache,
        prepare: Callable[[Start], None] | None = None,
        after_call: Callable[[], None] | None = None,
    ) -> None:
        """`prepare` is called before each episode, in a process that is its own; `after_call` before
        each answer, in one that is shared."""
        self._limits = environment.limits
        self._package = environment.__module__.partition(".")[0]
        self._task_cache = task_cache
        self._caller = caller
        self._prepare = prepare
        self._after_call = after_call
        self._episodes: dict[int, LiveEpisode] = {}

    async def take(self, call: Call) -> Answer:
        """Do what the call says."""
        with for_run(self._secrets_of(call)):
            try:
                return Observed(call.id) if call.closes else await self._played(call)
            except BaseException as error:
                if self._caller.is_cancelled:
                    raise
                return self._refused(call.id, error)
            finally:
                if self._after_call is not None:
                    self._after_call()

    def _secrets_of(self, call: Call) -> Mapping[str, str]:
        """Of its run."""
        if call.start is not None:
            return call.start.sealed.opened_by_name()
        episode = self._episodes.get(call.slot)
        return {} if episode is None else episode.secrets

    def forget_episode(self, call: Call) -> None:
        """Let go of its episode, which nobody closes."""
        episode = self._episodes.pop(call.slot, None)
        if episode is not None:
            episode.let_go()

    async def close(self, call: Call) -> bool:
        """Close the episode of a call that was its last; whether that went well."""
        episode = self._episodes.pop(call.slot, None)
        if episode is None:
            return True
        try:
            await episode.close(call.id)
        except BaseException as error:
            if self._caller.is_cancelled:
                raise
            log.error("close() failed: %s", blame(error, self._package).reason, exc_info=error)
            return False
        return True

    async def close_all(self, limit_s: float) -> None:
        """Those that are live, in a process that goes on; none of them takes longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await asyncio.gather(*(self.close(Call(IDLE, slot)) for slot in self._episodes))

    async def _played(self, call: Call) -> Observed:
        if call.group is not None:
            return await self._compared(call, call.group)
        observed: Observed | None = None
        expected = iter(call.digests)
        if call.start is not None:
            observed = _same(await self._opened(call, call.start), next(expected, None))
        episode = self._episodes[call.slot]
        rewards = Rewards()
        for action, sampled in zip_longest(call.actions, call.sampled):
            observed = _same(await episode.step(call.id, action, sampled), next(expected, None))
            rewards.note(observed)
        if call.is_scored and observed is not None:
            observed = rewards.told_with(observed)
        return await episode.with_demonstration(observed or Observed(call.id))

    async def _compared(self, call: Call, group: str) -> Observed:
        """By an instance that nobody closes: it plays nothing."""
        assert call.start is not None
        made = await self._made(call, call.start)
        instance = LiveEpisode(made, call.start, self._caller)
        try:
            task = self._task(call.start, made)
            return await instance.score_group(call.id, ScoredGroup.from_json(group), task)
        finally:
            instance.let_go()

    async def _made(self, call: Call, start: Start) -> Env[Any]:
        """A fresh instance, whose tasks are loaded."""
        task_cache, caller = self._task_cache, self._caller
        while not task_cache.has_loaded(start):  # others may load, and push it out, meanwhile
            await caller.call(call.id, self._limits.load_s, task_cache.load, start)
        if self._prepare is not None:
            self._prepare(start)
        return await caller.call(call.id, self._limits.reset_s, task_cache.make, start)

    def _task(self, start: Start, made: Env[Any]) -> object:
        return self._task_cache.task(start) if start.row is None else task_of_row(start.row, made)

    async def _opened(self, call: Call, start: Start) -> Observed:
        made, task_cache, row = await self._made(call, start), self._task_cache, start.row
        episode = self._episodes[call.slot] = LiveEpisode(made, start, self._caller)
        number, n_tasks = task_cache.task_number(start), task_cache.n_tasks(start)
        shown = await episode.reset(call.id, self._task(start, made))
        task_id = shown.task_id or row_id(None if row is None else row.values)
        told = None if row is not None else task_cache.ids(start)
        return replace(shown, task_number=number, task_id=task_id, n_tasks=n_tasks, all_ids=told)

    def _refused(self, call: int, error: BaseException) -> Refused:
        refusal = blame(error, self._package)
        if refusal.kind is FailureKind.LOST:
            log.warning("%s; the host asks again, a few times at most", refusal.reason)
        elif refusal is not error:
            log.error("call %d failed: %s", call, refusal.reason, exc_info=error)
        return Refused(call, refusal.kind, refusal.reason, refusal.is_retryable)


def is_last(call: Call, answer: Answer) -> bool:
    """True if the episode is over with this answer."""
    return call.closes or isinstance(answer, Refused) or answer.is_over


def _same(observed: Observed, expected: str | None) -> Observed:
    """The observation, if it is the expected one and the episode goes on as it did."""
    if expected is None or (observed.digest == expected and not observed.is_over):
        return observed
    raise Refusal(
        FailureKind.NOT_REPLAYABLE,
        "replayed with the same seed and actions, the environment showed something else"
        " (set `replayable = False`, or take all chance from ctx.rng)",
    )
