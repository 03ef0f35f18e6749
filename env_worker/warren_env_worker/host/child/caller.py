"""Calls of user code: marked in the call status, bounded in time, sync or async.

Invariant: while user code runs, the cell holds the number of its call and the deadline; an `async`
call is marked whenever it is resumed, so that one that blocks the loop is found as well.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.late import too_long
from warren_env_worker.host.refusal import Refusal
from warren_env_worker.output.stack import own_place, places_of_coroutine
from warren_schemas.episode import FailureKind

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

_ENDS_LOOP = (SystemExit, KeyboardInterrupt)
"""Raised in a task, and with it by the loop."""


class Calling(Protocol):
    """How user code is called, by whom it is played."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the task that calls is to end: a `CancelledError` may be user code's own, too."""
        ...

    async def call(
        self,
        call: int,
        limit_s: float,
        function: Callable[P, ResultT | Awaitable[ResultT]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ResultT:
        """What `function` returns. Raises what it raises, and `Refusal` for a missed deadline."""
        ...


class Caller:
    def __init__(
        self, status: CallStatus, *, is_async: bool, limits_s: Mapping[str, float]
    ) -> None:
        """`limits_s` are those that a missed deadline may be told by (`late.raisable_s`)."""
        self._status = status
        self._is_async = is_async
        self._limits_s = limits_s

    @property
    def is_cancelled(self) -> bool:
        return self._is_async and is_cancelled()

    async def call(
        self,
        call: int,
        limit_s: float,
        function: Callable[P, ResultT | Awaitable[ResultT]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ResultT:
        """Suspends only if the class is async; a caller without an event loop may drive it by hand."""
        self._status.enter_call(call, limit_s)
        try:
            result = function(*args, **kwargs)
        finally:
            self._status.leave_call()
        if self._is_async and inspect.isawaitable(result):
            return await self._bounded(call, limit_s, cast("Awaitable[ResultT]", result))
        return cast("ResultT", result)

    async def _bounded(self, call: int, limit_s: float, result: Awaitable[ResultT]) -> ResultT:
        """In a task of its own: nobody waits for one that refuses to end."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[ResultT] = loop.create_future()
        task = loop.create_task(_told(outcome, self._marked(call, limit_s, result)))
        timer = loop.call_later(limit_s, self._expire, outcome, limit_s, result)
        try:
            return await outcome
        finally:
            timer.cancel()
            task.cancel()

    def _expire(
        self, outcome: asyncio.Future[Any], limit_s: float, result: Awaitable[object]
    ) -> None:
        if not outcome.done():
            outcome.set_exception(late(limit_s, self._limits_s, _where(result)))

    def _marked(self, call: int, limit_s: float, result: Awaitable[ResultT]) -> "_Marked[ResultT]":
        return _Marked(
            result, lambda: self._status.enter_call(call, limit_s), self._status.leave_call
        )


def is_cancelled() -> bool:
    """Whether the task that asks is to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _told(outcome: asyncio.Future[ResultT], result: Awaitable[ResultT]) -> None:
    """Tell the outcome as soon as it is there: who waits for the task hears of it later, turns of the loop apart."""
    try:
        value = await result
    except asyncio.CancelledError:
        outcome.cancel()
        raise
    except BaseException as error:
        if outcome.done() or isinstance(error, _ENDS_LOOP):
            raise
        outcome.set_exception(error)
    else:
        if not outcome.done():
            outcome.set_result(value)


def late(limit_s: float, limits_s: Mapping[str, float], where: str = "") -> Refusal:
    """As `late.too_long` says it."""
    return Refusal(FailureKind.ENVIRONMENT_TIMEOUT, too_long(limit_s, limits_s, where))


class _Marked(Awaitable[ResultT]):
    """An awaitable that says when it runs and when it waits."""

    def __init__(
        self, inner: Awaitable[ResultT], enter: Callable[[], None], leave: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._enter = enter
        self._leave = leave

    def __await__(self) -> Generator[Any, Any, ResultT]:
        steps = self._inner.__await__()
        resume: Callable[[], Any] = lambda: next(steps)
        while True:
            self._enter()
            try:
                waited_for = resume()
            except StopIteration as end:
                return end.value
            finally:
                self._leave()
            try:
                sent = yield waited_for
            except BaseException as error:  # noqa: BLE001 - user code gets it, cancellation too
                resume = _thrower(steps, error)
            else:
                resume = _sender(steps, sent)


def _where(result: Awaitable[object]) -> str:
    """Where a coroutine of user code waits, as the end of a sentence."""
    awaiting = places_of_coroutine(result)
    place = own_place(awaiting, awaiting[-1].path) if awaiting else None
    return f"; it waits at {place}" if place else ""


def _thrower(steps: Generator[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)


def _sender(steps: Generator[Any, Any, Any], sent: object) -> Callable[[], Any]:
    return lambda: next(steps) if sent is None else steps.send(sent)
