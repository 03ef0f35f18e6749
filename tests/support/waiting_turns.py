"""Environments of one quick turn, and of what speaks against playing them without a process each."""

import os
import random
import time

import numpy as np
from tests.support.leaving import DEEDS

from warren.environment import Context, Env, Limits, StepResult


class Quick(Env):
    """What the policy says is done: a deed, or one of `more` (goes on) and `wait:PATH` (for a file)."""

    name = "quick"
    limits = Limits(reset_s=60.0, step_s=60.0, memory_mb=512)

    def reset(self, task: None, ctx: Context) -> str:
        self.n_steps = 0
        return f"{random.random()} {np.random.random()} {ctx.rng.random()}"

    def step(self, action: str) -> StepResult:
        self.n_steps += 1
        if action.startswith("wait:"):
            _until_there(action.removeprefix("wait:"))
        elif action != "more":
            DEEDS[action]()
        metrics = {"pid": float(os.getpid()), "chance": random.random() + np.random.random()}
        return StepResult("go on", float(self.n_steps), done=action != "more", metrics=metrics)


class Clocked(Quick):
    """Never shows the same twice, and does not say so."""

    def reset(self, task: None, ctx: Context) -> str:
        super().reset(task, ctx)
        return str(time.monotonic_ns())


class Printing(Quick):
    def step(self, action: str) -> StepResult:
        print("said", self.context.index, flush=True)
        return super().step(action)


class Closing(Quick):
    def close(self) -> None:
        self.n_steps = 0


def _until_there(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)
