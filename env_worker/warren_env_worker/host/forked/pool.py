"""Processes that wait for their next episode.

The one that was used last goes first, as its memory is warm; so those that are too many grow old,
and are dismissed.
"""

import time
from dataclasses import dataclass

from warren_env_worker.host.forked.episode_process import EpisodeProcess
from warren_env_worker.host.protocol import Call

IDLE_S = 60.0
"""How long a process waits for an episode."""


@dataclass(frozen=True, slots=True)
class _Idle:
    process: EpisodeProcess
    since_s: float


class Pool:
    def __init__(self) -> None:
        self._idle: list[_Idle] = []

    def __len__(self) -> int:
        return len(self._idle)

    def put(self, process: EpisodeProcess) -> None:
        self._idle.append(_Idle(process, time.monotonic()))

    def take(self, call: Call, n_loads: int) -> EpisodeProcess | None:
        """One that suits this call, whose tasks came with so many loads."""
        for position in reversed(range(len(self._idle))):
            if self._idle[position].process.suits(call, n_loads):
                return self._idle.pop(position).process
        return None

    def remove(self, process: EpisodeProcess) -> None:
        self._idle = [idle for idle in self._idle if idle.process is not process]

    def take_old(self) -> EpisodeProcess | None:
        """One that has waited too long."""
        remaining_s = self.remaining_s
        return self._idle.pop(0).process if remaining_s is not None and remaining_s <= 0 else None

    @property
    def remaining_s(self) -> float | None:
        """Until the next one has waited too long; None where there is none."""
        if not self._idle:
            return None
        return self._idle[0].since_s + IDLE_S - time.monotonic()
