"""An event loop in a thread of its own, for callers that have none, or one that they must not block.

Invariants
- A call returns when its coroutine is over, not before: one that is interrupted (Ctrl-C) is cancelled
  and waited for, so what it held is free again when the caller goes on.
- Whatever still runs when the thread is stopped is cancelled, and generators are closed.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Coroutine, Generator
from concurrent.futures import CancelledError, Future
from concurrent.futures import wait as wait_for
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Items(Protocol[T_co]):
    """An asynchronous generator, or what reads like one."""

    def __anext__(self) -> Awaitable[T_co]: ...

    def aclose(self) -> Awaitable[None]: ...


class LoopThread:
    """Runs until `stop`; a daemon, so that a forgotten one keeps no program from ending."""

    def __init__(self) -> None:
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, name="warren", daemon=True)
        self._thread.start()
        self._loop, self._end = self._ready.result()
        self._is_stopped = False

    def call(self, coroutine: Coroutine[object, None, T]) -> T:
        """What the coroutine returns or raises."""
        try:
            self._require_usable()
        except RuntimeError:
            coroutine.close()
            raise
        call = _Call(coroutine)
        try:
            self._loop.call_soon_threadsafe(call.begin)
            return call.answer.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(call.cancel)
            wait_for([call.answer])
            raise

    def iterate(self, items: Items[T]) -> Generator[T]:
        """The same items without `await`; left early, the generator is closed."""
        try:
            while True:
                try:
                    item = self.call(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self._finish(items)

    def stop(self) -> None:
        """Cancel what still runs and end the thread; stopping again changes nothing."""
        if not self._is_stopped:
            self._is_stopped = True
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        end = asyncio.Event()
        self._ready.set_result((asyncio.get_running_loop(), end))
        await end.wait()

    def _require_usable(self) -> None:
        if self._is_stopped:
            raise RuntimeError("this client is closed; connect again")
        if threading.current_thread() is self._thread:
            raise RuntimeError("a callback of the client can't wait for the client itself")

    def _finish(self, items: Items[T]) -> None:
        if threading.current_thread() is self._thread:  # the garbage collector came by here
            self._loop.create_task(_close(items))
        elif not self._is_stopped:
            self.call(_close(items))


class _Call(Generic[T]):
    """One coroutine on its way; `begin` and `cancel` belong to the loop's thread."""

    def __init__(self, coroutine: Coroutine[object, None, T]) -> None:
        self.answer: Future[T] = Future()
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        if self.answer.done():
            return
        self._task = asyncio.get_running_loop().create_task(_awaited(self._coroutine))
        self._task.add_done_callback(self._settle)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self.answer.done():
            self._coroutine.close()
            self.answer.set_exception(CancelledError())

    def _settle(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.answer.set_exception(CancelledError())  # `cancel` would wake nobody who waits
        elif (error := task.exception()) is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(task.result())


async def _awaited(coroutine: Coroutine[object, None, T]) -> T:
    return await coroutine


async def _next(items: Items[T]) -> T:
    return await items.__anext__()


async def _close(items: Items[T]) -> None:
    with contextlib.suppress(RuntimeError):  # it is closed already
        await items.aclose()
