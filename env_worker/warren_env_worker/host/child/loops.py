"""The two loops of a child: one for classes with plain methods, one for classes with `async` ones.

Invariant of both: an answer is sent before its episode is closed, so that a `close` that hangs or
crashes can't take the outcome with it.
"""

import asyncio
import inspect
import socket
from typing import Any

from warren.actions.environment import has_async_actions
from warren.environment import Env
from warren.tools import has_async_tools
from warren_broker.worker.channel import Channel
from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.child.answer_batches import Answers, Flusher
from warren_env_worker.host.child.call_reader import CallReader
from warren_env_worker.host.child.caller import Caller
from warren_env_worker.host.child.live_episodes import LiveEpisodes, is_last
from warren_env_worker.host.child.memory import SharedMemoryLimit
from warren_env_worker.host.child.task_cache import TaskCache
from warren_env_worker.host.driven import driven
from warren_env_worker.host.protocol import Call, unpack

_MAY_BE_ASYNC = ("tasks", "reset", "step", "score", "close")


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
        environment, Caller(status, is_async=awaits), task_cache, after_call=limit.check
    )
    if awaits:
        asyncio.run(serve_concurrently(channel, episodes))
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


async def serve_concurrently(channel: Channel, episodes: LiveEpisodes) -> None:
    """Calls of different episodes side by side, until the supervisor goes."""
    answers = Answers(channel)
    under_way: set[asyncio.Task[None]] = set()
    talk = channel.detach()
    reader = CallReader(talk)
    while (calls := await _next_calls(reader, talk)) is not None:
        for call in calls:
            task = asyncio.create_task(_take(episodes, call, answers), name=f"call-{call.id}")
            under_way.add(task)
            task.add_done_callback(under_way.discard)


async def _next_calls(reader: CallReader, talk: socket.socket) -> list[Call] | None:
    """As soon as there is news; in this thread, for two that take turns would hold up each other."""
    loop = asyncio.get_running_loop()
    is_news = asyncio.Event()
    loop.add_reader(talk, is_news.set)
    try:
        await is_news.wait()
    finally:
        loop.remove_reader(talk)
    return reader.calls()


async def _take(episodes: LiveEpisodes, call: Call, answers: Answers) -> None:
    answer = await episodes.take(call)
    answers.add(answer)
    await asyncio.sleep(0)  # what else is ready in this turn of the loop goes into the same frame
    answers.flush()
    if is_last(call, answer):
        await episodes.close(call)
