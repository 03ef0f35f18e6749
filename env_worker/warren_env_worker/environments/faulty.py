"""Environments that misbehave, to see what a worker makes of it; none is offered unasked.

    warren env-worker --env warren_env_worker.environments.faulty:Crash

Each plays `echo` over `turns` turns, and does what its name says with probability `rate` per turn.
"""

import ctypes
import os
import random
import subprocess
import sys
import time
from typing import Literal

from warren.environment import Context, Env, Limits, StepResult

_MIB = 1024 * 1024


class _Trouble(Env):
    limits = Limits(reset_s=30.0, step_s=30.0, memory_mb=256)

    def __init__(self, turns: int = 3, rate: float = 0.5) -> None:
        self.n_left, self.rate = turns, rate

    def reset(self, task: None, ctx: Context) -> str:
        self.rng = ctx.member_rng
        self.word = str(ctx.rng.randrange(10))
        return self.word

    def step(self, action: str) -> StepResult:
        if self.rng.random() < self.rate:
            self.misbehave()
        self.n_left -= 1
        return StepResult(self.word, reward=float(action == self.word), done=self.n_left == 0)

    def misbehave(self) -> None:
        raise NotImplementedError


class Sleep(_Trouble):
    """Takes its time, within its limits."""

    name = "sleep"

    def misbehave(self) -> None:
        time.sleep(self.rng.uniform(0.0, 0.2))


class Crash(_Trouble):
    """Raises, exits, or dies of a signal."""

    name = "crash"

    def __init__(
        self,
        turns: int = 3,
        rate: float = 0.5,
        how: Literal["raise", "exit", "segfault", "any"] = "any",
    ) -> None:
        super().__init__(turns, rate)
        self.how = how

    def misbehave(self) -> None:
        how = self.rng.choice(("raise", "exit", "segfault")) if self.how == "any" else self.how
        if how == "raise":
            raise RuntimeError("trouble, as asked for")
        if how == "exit":
            os._exit(7)
        ctypes.string_at(0)


class Hang(_Trouble):
    """Never answers, and leaves a process behind that would not end either."""

    name = "hang"
    limits = Limits(reset_s=30.0, step_s=3.0, memory_mb=256)

    def misbehave(self) -> None:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        time.sleep(3600)


class Leak(_Trouble):
    """Takes memory and never gives it back."""

    name = "leak"
    _held: list[bytearray] = []  # noqa: RUF012 - a leak

    def misbehave(self) -> None:
        while True:
            self._held.append(bytearray(16 * _MIB))


class Flood(_Trouble):
    """Prints without end for a while."""

    name = "flood"

    def misbehave(self) -> None:
        for _ in range(64):
            print("flood " * 4096)


class Nondeterministic(_Trouble):
    """Shows something else each time it is rebuilt, and says that it can be rebuilt."""

    name = "nondeterministic"

    def reset(self, task: None, ctx: Context) -> str:
        return f"{super().reset(task, ctx)} {random.SystemRandom().randrange(10**9)}"

    def misbehave(self) -> None:
        os._exit(7)
