"""The loop of a child for classes with plain methods; that for classes with `async` ones is `side_by_side`.

Invariant of both: an answer is sent before its episode is closed, so that a `close` that hangs or
crashes can't take the outcome with it.
"""

import asyncio
import inspect
from typing import Any

from warren.actions.environment import has_async_actions
from warren.environment import Env
from warren.tools import has_async_tools
from warren_broker.worker.channel import Channel
from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.child.answer_batches import Answers, Flusher
from warren_env_worker.host.child.caller import Caller
from warren_env_worker.host.child.live_episodes import LiveEpisodes, is_last
from warren_env_worker.host.child.memory import SharedMemoryLimit
from warren_env_worker.host.child.side_by_side import SideBySide
from warren_env_worker.host.child.task_cache import TaskCache
from warren_env_worker.host.driven import driven
from warren_env_worker.host.late import raisable_s
from warren_env_worker.host.protocol import Call, unpack

_MAY_BE_ASYNC = ("tasks", "reset", "step", "score", "score_group", "close")


def is_async(environment: type[Env[Any]]) -> bool:
    """Whether any of its methods may have to be awaited."""
    methods = (getattr(environment, name) for name in _MAY_BE_ASYNC)
    has_async = any(inspect.iscoroutinefunction(m) for m in methods)
    return has_async or has_async_tools(environment) or has_async_actions(environment)


def serve(
    channel: Channel, status: CallStatus, environment: type[Env[Any]], task_cache: TaskCache
) -> None:
    """Take calls, in the way that the class asks for, until the other side goes."""
    awaits = is_async(environment)
    limit = SharedMemoryLimit(environment.limits.memory_mb, status.ask_for_replacement)
    episodes = LiveEpisodes(
        environment,
        Caller(status, is_async=awaits, limits_s=raisable_s(environment)),
        task_cache,
        after_call=limit.check,
    )
    if awaits:
        asyncio.run(SideBySide(channel, episodes).serve())
    else:
        # What can't be replayed must not be lost with the answers of its neighbours.
        serve_one_by_one(channel, episodes, sends_at_once=not environment.replayable)


def serve_one_by_one(channel: Channel, episodes: LiveEpisodes, *, sends_at_once: bool) -> None:
    """Calls in their order, in this thread, until the supervisor goes."""
    answers = Answers(channel)
    flusher = Flusher(answers)
    while (frame := channel.receive()) is not None:
        calls = unpack(frame)
        if len(calls) > 1:
            flusher.begin()
        over = _take_all(episodes, calls, answers, sends_at_once=sends_at_once)
        flusher.end()
        answers.flush()
        for call in over:
            driven(episodes.close(call))


def _take_all(
    episodes: LiveEpisodes, calls: list[Call], answers: Answers, *, sends_at_once: bool
) -> list[Call]:
    """The calls whose episodes are over."""
    over: list[Call] = []
    for call in calls:
        answer = driven(episodes.take(call))
        answers.add(answer)
        if sends_at_once:
            answers.flush()
        if is_last(call, answer):
            over.append(call)
    return over
