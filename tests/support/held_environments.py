"""Environments that stand still until a test, or their host, does something."""

import os
import signal
import time
from pathlib import Path

from warren.environment import Context, Env, EpisodeTranscript, Limits, StepResult
from warren_env_worker.output.stack import SIGNAL

LOOK_S = 0.01
N_TURNS = 3
SHORT_S = 0.5


class Held(Env):
    """Shows numbers, and rewards digits. While the file `hold` is there nobody is told of the next one."""

    name = "held"
    isolation = "episode"
    limits = Limits(step_s=600.0)

    def __init__(self, hold: str) -> None:
        self.hold = Path(hold)
        self.n_taken = self.n_digits = 0

    def reset(self, task: None, ctx: Context) -> str:
        self.numbers = [str(ctx.rng.randrange(1000)) for _ in range(N_TURNS)]
        return self.numbers[0]

    def step(self, action: str) -> StepResult:
        self.n_taken += 1
        self.n_digits += sum(letter.isdigit() for letter in action)
        if self.n_taken == N_TURNS:
            return StepResult(reward=float(self.n_digits), done=True)
        if self.hold.exists():
            self.hold.with_suffix(".reached").touch()
            while self.hold.exists():
                time.sleep(LOOK_S)
        return StepResult(self.numbers[self.n_taken])


class Startled(Env):
    """Its `step` is late, and ends once its host asks where it waits; its `score`, which follows in the same call, never ends."""

    name = "startled"
    isolation = "episode"
    limits = Limits(step_s=SHORT_S, score_s=600.0)

    def reset(self, task: None, ctx: Context) -> str:
        return "ready"

    def step(self, action: str) -> StepResult:
        until_asked()
        return StepResult(done=True)

    def score(self, transcript: EpisodeTranscript) -> float:
        time.sleep(600.0)
        return 0.0


class SharedStartled(Startled):
    isolation = "shared"


def until_asked() -> None:
    """The answer of this process would be where it waits."""
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.signal(SIGNAL, lambda _number, _frame: None)
    signal.set_wakeup_fd(told)  # whichever thread gets the signal
    os.read(heard, 1)
