"""An event loop in a thread of its own, for services that the episodes of a process share.

Pools of verifiers and sandboxes belong to no single episode, and environments with plain methods
use them as well as those with `async` ones. So they live here, and everybody calls in.

Invariants: there is one background loop for each process, made when it is first asked for; a process that
was forked has one of its own. What runs there never blocks. It ends with the process.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class BackgroundLoop:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="background loop", daemon=True).start()

    async def call(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """What the coroutine returns or raises there; cancelling this cancels it."""
        return await asyncio.wrap_future(self.submit(coroutine))

    def wait(self, coroutine: Coroutine[Any, Any, ResultT], *, limit_s: float) -> ResultT:
        """The same for callers without an event loop. Raises `TimeoutError`."""
        future = self.submit(coroutine)
        try:
            return future.result(limit_s)
        finally:
            future.cancel()

    def submit(self, coroutine: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """The same for callers who don't wait."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


class _Holder:
    """The process's background loop; forgotten in a forked child, whose copy has no thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._background_loop: BackgroundLoop | None = None
        os.register_at_fork(after_in_child=self._forget)

    def get(self) -> BackgroundLoop:
        with self._lock:
            if self._background_loop is None:
                self._background_loop = BackgroundLoop()
            return self._background_loop

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._background_loop = None


_holder = _Holder()


def background_loop() -> BackgroundLoop:
    """The one of this process."""
    return _holder.get()
