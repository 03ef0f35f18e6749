"""Started sandboxes that wait for whoever opens one next, so that nobody waits for a start.

Invariants: no more than `n_most` wait, whatever they are: the oldest gives way to a newer one, so that settings which
nobody asks for again cost nothing for long; one that has ended meanwhile is never handed out; one that nobody took for
`IDLE_S` is ended; once closed, none is left and none is started.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol

from warren.host_services.cells import SandboxFailed
from warren_env_worker.sandbox.port import Sandbox

N_SPARES = 4
"""Of a process that gives them to others; a bare session takes some 10 MiB."""
IDLE_S = 120.0

log = logging.getLogger(__name__)


class Waiting(Sandbox, Protocol):
    @property
    def is_alive(self) -> bool:
        """Whether its session has started and not ended."""
        ...


class Spares:
    """For one event loop."""

    def __init__(self, n_most: int, *, idle_s: float = IDLE_S) -> None:
        self._n_most = n_most
        self._idle_s = idle_s
        self._waiting: list[tuple[object, Waiting, asyncio.TimerHandle]] = []
        self._starting: dict[asyncio.Task[None], object] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    def take(self, kind: object) -> Waiting | None:
        """One of this kind that is alive; None where there is none."""
        for entry in [each for each in self._waiting if each[0] is kind]:
            sandbox = self._removed(entry)
            if sandbox.is_alive:
                return sandbox
            self._do(sandbox.close())
        return None

    def order(self, kind: object, start: Callable[[], Awaitable[Waiting]]) -> None:
        """Have one more of this kind wait before long, if there may be: in place of the oldest of another."""
        kinds = [*(each[0] for each in self._waiting), *self._starting.values()]
        if kinds.count(kind) < self._n_most:
            task = self._do(self._started(kind, start))
            self._starting[task] = kind
            task.add_done_callback(self._starting.pop)

    async def close(self) -> None:
        """End those that wait, and give up those that start."""
        self._n_most = 0  # one that has started all the same gives way at once
        for task in self._starting:
            task.cancel()
        for entry in list(self._waiting):
            self._do(self._removed(entry).close())
        while self._under_way:
            await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _started(self, kind: object, start: Callable[[], Awaitable[Waiting]]) -> None:
        try:
            sandbox = await start()
        except SandboxFailed as error:  # whoever needs one is told
            log.debug("no sandbox waits for the next episode: %s", error)
            return
        self._keep(kind, sandbox)
        while len(self._waiting) > self._n_most:
            self._do(self._removed(self._waiting[0]).close())

    def _keep(self, kind: object, sandbox: Waiting) -> None:
        timer = asyncio.get_running_loop().call_later(self._idle_s, lambda: self._expire(entry))
        entry = (kind, sandbox, timer)
        self._waiting.append(entry)

    def _expire(self, entry: tuple[object, Waiting, asyncio.TimerHandle]) -> None:
        self._do(self._removed(entry).close())

    def _removed(self, entry: tuple[object, Waiting, asyncio.TimerHandle]) -> Waiting:
        self._waiting.remove(entry)
        entry[2].cancel()
        return entry[1]

    def _do(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task
