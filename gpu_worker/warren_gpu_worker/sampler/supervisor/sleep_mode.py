"""A sampler's child in a GPU that a trainer takes at times: asleep meanwhile.

Invariants: the child is on the GPU from before its start until it is dead, but for the time from
when it says that it sleeps until it is told to wake. One that takes longer than `deadline_s` to do
either is given up, so that it is killed and started again once the GPU is free. One that has work
to do when it starts or wakes gets some of it done before it sleeps again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from warren_broker.worker.child import Child, ChildDied
from warren_gpu_worker.time_share import TimeShare

log = logging.getLogger(__name__)


class SleepMode:
    """`has_work` tells whether the child holds any; `order` tells it to sleep, or to wake."""

    def __init__(
        self,
        time_share: TimeShare,
        *,
        deadline_s: float,
        has_work: Callable[[], bool],
        order: Callable[[bool], None],
    ) -> None:
        self._time_share = time_share
        self._deadline_s = deadline_s
        self._has_work = has_work
        self._order = order
        self._is_in = False
        self.is_asleep = False
        """What the child said last."""
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def life(self) -> AsyncGenerator[None]:
        """Of one child, from before its start until its memory is free."""
        self._time_share.miss()
        await self._enter()
        self.is_asleep = False
        try:
            yield
        finally:
            self._leave()

    def heard(self, *, is_asleep: bool) -> None:
        """The child has said so."""
        if is_asleep != self.is_asleep:
            self.is_asleep = is_asleep
            self._changed.set()

    def stirred(self) -> None:
        """The child has got something to do."""
        if not self._is_in:
            self._time_share.miss()

    async def keep(self, child: Child) -> None:
        """Have it sleep whenever the trainer wants the GPU; never returns. Raises `ChildDied`."""
        while True:
            if self._has_work():
                await asyncio.sleep(self._time_share.limits.keep_s)
            await self._time_share.until_asked_for()
            await self._bring(child, is_asleep=True)
            self._leave()
            if self._has_work():
                self._time_share.miss()
            await self._enter()
            await self._bring(child, is_asleep=False)

    async def _bring(self, child: Child, *, is_asleep: bool) -> None:
        self._order(is_asleep)
        try:
            async with asyncio.timeout(self._deadline_s):
                while self.is_asleep != is_asleep:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError as error:
            asked = "sleep" if is_asleep else "wake"
            log.error("%s does not %s within %g s: killing it", child.name, asked, self._deadline_s)
            child.kill()
            raise ChildDied(child.name, None) from error

    async def _enter(self) -> None:
        await self._time_share.acquire_for_sampling()
        self._is_in = True

    def _leave(self) -> None:
        if self._is_in:
            self._is_in = False
            self._time_share.release_from_sampling()
