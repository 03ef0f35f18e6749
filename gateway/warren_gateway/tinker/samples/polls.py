"""Clients that wait for all samples of a sampler at once.

Invariants: a poll says what the store says, and looks there when it ends, so that it depends on no message; what a
client has heard of is written down a few seconds later, or again with its next poll.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress

from warren_gateway.tinker.samples.completions import Clone, Completed, CompletionRows, clone_of
from warren_gateway.trainable.waiters import Waiters

PAUSE_S = 15.0
"""A client that is silent for longer polls no more."""


class SamplePolls:
    def __init__(self, rows: CompletionRows, waiters: Waiters) -> None:
        self._rows = rows
        self._waiters = waiters
        self._until_s = dict[str, float]()
        """By sampler, until when its client is taken to poll."""
        self._heard = dict[Clone, int]()
        """Numbers of completions, and not written down yet."""

    def begin(self, clone: Clone, after: int, within_s: float) -> bool:
        """Whether nobody has polled here for this sampler for a while."""
        now_s, (sampler, _) = asyncio.get_running_loop().time(), clone
        is_new = self._until_s.get(sampler, 0.0) < now_s
        self._until_s[sampler] = now_s + within_s + PAUSE_S
        self._heard[clone] = max(self._heard.get(clone, 0), after)
        return is_new

    async def completed(self, clone: Clone, after: int, within_s: float) -> Completed:
        """Raises `StoreUnavailable`."""
        with self._waiters.watch([clone[0]]) as event, suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while True:
                    event.clear()
                    found = await self._rows.completed(clone, after)
                    if found.completions:
                        return found
                    await event.wait()
        return await self._rows.completed(clone, after)

    def wake(self, name: str) -> None:
        """This sample is done."""
        self._waiters.wake([clone_of(name)[0]])

    @property
    def samplers(self) -> Collection[str]:
        """Those that are polled for."""
        return self._until_s.keys()

    async def tidy(self) -> None:
        """Write down what clients have heard of. Raises `StoreUnavailable`."""
        now_s = asyncio.get_running_loop().time()
        self._until_s = {name: s for name, s in self._until_s.items() if s >= now_s}
        heard, self._heard = self._heard, {}
        if heard:
            await self._rows.heard(heard)
