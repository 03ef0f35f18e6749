"""Sharing a GPU in time: sampler and full-parameter training, which don't fit together, have it in turn.

It is the samplers' until the trainer asks. Then every sampler's child that is in it falls asleep or
is killed (see `sampler.supervisor.sleep_mode`), no other is started, and the trainer's models come. The trainer
leaves when samplers miss the GPU and it has nothing more to do, or has had its time.

Invariants:
- The trainer has the GPU only while no sampler's child is awake: each is asleep or dead.
- Both get on: a sampler that comes back to work stays for `keep_s`; the trainer does an op or two,
  and leaves, if samplers miss the GPU, after `hold_s` or after `linger_s` with nothing to do.
- Nobody waits for ever. The trainer waits for children that are loading, falling asleep or dying, each
  of which has a deadline; samplers wait for an op, and then for a child that offloads its models, both
  within what the trainer's child is given before it is killed. Who dies has given up its turn.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass


def _nobody() -> None:
    pass


@dataclass(frozen=True, slots=True)
class TimeShareLimits:
    """How long each side may hold the GPU."""

    keep_s: float = 5.0
    """A sampler that has work, at least."""
    hold_s: float = 60.0
    """The trainer, at most, while a sampler misses the GPU."""
    linger_s: float = 0.5
    """The trainer, with nothing to do: a step's ops come in several messages."""


class TimeShare:
    """On one event loop; there is one trainer, and any number of samplers."""

    def __init__(self, limits: TimeShareLimits | None = None) -> None:
        self.limits = limits or TimeShareLimits()
        self.is_missed = False
        """A sampler that is not on the GPU has something to do."""
        self.on_missed: Callable[[], None] = _nobody
        """Called on the event loop; must not block."""
        self._is_samplers = asyncio.Event()
        self._is_samplers.set()
        self._is_trainers = asyncio.Event()
        """Or wanted by it."""
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._n_samplers = 0
        self._nobody_waits = asyncio.Event()
        self._nobody_waits.set()
        self._n_waiting = 0

    async def acquire_for_sampling(self) -> None:
        """A sampler comes in, once the trainer is out."""
        self._n_waiting += 1
        self._nobody_waits.clear()
        try:
            while not self._is_samplers.is_set():
                await self._is_samplers.wait()
            self._n_samplers += 1
            self._is_empty.clear()
        finally:
            self._n_waiting -= 1
            if not self._n_waiting:
                self._nobody_waits.set()

    def release_from_sampling(self) -> None:
        """A sampler's memory is free."""
        self._n_samplers -= 1
        if not self._n_samplers:
            self._is_empty.set()

    async def until_asked_for(self) -> None:
        """Return when the samplers must leave."""
        await self._is_trainers.wait()

    def miss(self) -> None:
        """A sampler has something to do; in vain while it is on the GPU."""
        self.is_missed = True
        self.on_missed()

    async def acquire_for_training(self) -> None:
        """The trainer comes in, once the samplers that waited for it have been in and all have left."""
        await self._nobody_waits.wait()
        self.is_missed = False
        self._is_samplers.clear()
        self._is_trainers.set()
        try:
            await self._is_empty.wait()
        except asyncio.CancelledError:
            self.release_from_training()
            raise

    def release_from_training(self) -> None:
        """The trainer's memory is free, or it no longer waits."""
        self._is_trainers.clear()
        self._is_samplers.set()


class TrainerHold:
    """The trainer's hold of the GPU; `nudge` asks for another look at `must_release`."""

    def __init__(self, time_share: TimeShare, nudge: Callable[[], None]) -> None:
        self._time_share = time_share
        self._nudge = nudge
        self._is_in = False
        self._is_going = False
        self._came_s = 0.0
        self._idle_since_s: float | None = None
        time_share.on_missed = nudge

    async def acquire(self) -> None:
        """Have the GPU."""
        if not self._is_in:
            await self._time_share.acquire_for_training()
            self._is_in, self._came_s = True, time.monotonic()
        self._idle_since_s = None

    def must_release(self, *, has_work: bool) -> bool:
        """Whether it is time to free the memory, and then to `release`; until then nothing may begin."""
        self._is_going = self._is_going or self._is_over(has_work=has_work)
        return self._is_going

    def _is_over(self, *, has_work: bool) -> bool:
        now_s, limits = time.monotonic(), self._time_share.limits
        if has_work:
            self._idle_since_s = None
        elif self._idle_since_s is None:
            self._idle_since_s = now_s
        if not (self._is_in and self._time_share.is_missed):
            return False
        if self._idle_since_s is None:
            return now_s - self._came_s >= limits.hold_s
        left_s = self._idle_since_s + limits.linger_s - now_s
        if left_s > 0:
            asyncio.get_running_loop().call_later(left_s, self._nudge)
        return left_s <= 0

    def release(self) -> None:
        """The memory is free; no error where it was not taken."""
        if self._is_in:
            self._is_in = self._is_going = False
            self._time_share.release_from_training()
