"""Environments that `warren env check` must find at fault, each for one thing."""

import asyncio
import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from warren.environment import Context, Env, EpisodeTranscript, Limits, StepResult


class Fine(Env):
    def reset(self, task: None, ctx: Context) -> str:
        self.word = "".join(ctx.rng.choices("abc", k=8))
        return f"Spell backwards: {self.word[::-1]}"

    def step(self, action: str) -> StepResult:
        return StepResult(reward=float(action == self.word), done=True)

    def demonstrate(self, rng: random.Random) -> str:
        return self.word


class Renamed(Fine):
    """Two of its tasks have the same id."""

    def tasks(self, split: str) -> list[dict[str, str]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return [
            {"id": name, "word": word} for name, word in (("a", "cab"), ("b", "bac"), ("a", "abc"))
        ]

    def reset(self, task: dict[str, str], ctx: Context) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.word = task["word"]
        return f"Spell backwards: {self.word[::-1]}"


class Leaky(Fine):
    def reset(self, task: None, ctx: Context) -> str:
        return f"{super().reset(task, ctx)} (it is {self.word})"


class Hinting(Fine):
    """Its answers are of one letter or two."""

    def reset(self, task: None, ctx: Context) -> str:
        a, b = ctx.rng.randrange(9), ctx.rng.randrange(9)
        self.word = str(a + b)
        return f"What is {a}+{b}? (The answer: {self.word}.) Say it."


class HintingAloud(Env):
    """The same without demonstrations."""

    def reset(self, task: None, ctx: Context) -> str:
        self.word = ctx.rng.choice("abc")
        return f"Say it: {self.word}!"

    def step(self, action: str) -> StepResult:
        return StepResult(reward=float(action == self.word), done=True)


class Fixed(Fine):
    """One task for ever, and its answer beside it."""

    def reset(self, task: None, ctx: Context) -> str:
        self.word = "4"
        return "2+2? It is 4"


class Choosing(Fine):
    """Shows the choices, which is fine."""

    def reset(self, task: None, ctx: Context) -> str:
        number = ctx.rng.randrange(10)
        self.word = "yes" if number % 2 else "no"
        return f"Is {number} odd, yes or no?"


class Larger(Fine):
    """What is right stands in each prompt, and where it stands tells nothing."""

    def reset(self, task: None, ctx: Context) -> str:
        numbers = ctx.rng.sample(range(10), 2)
        self.word = str(max(numbers))
        return f"Which is larger, {numbers[0]} or {numbers[1]}?"


class Endless(Fine):
    def step(self, action: str) -> StepResult:
        return StepResult("go on", reward=0.1)


class Hopeless(Env):
    """Always 0, and without demonstrations nobody knows whether that is right."""

    def reset(self, task: None, ctx: Context) -> str:
        return "?"

    def step(self, action: str) -> StepResult:
        return StepResult(reward=0.0, done=True)


class GlobalChance(Fine):
    def reset(self, task: None, ctx: Context) -> str:
        super().reset(task, ctx)
        return f"{self.word} {random.random()}"


class Generous(Fine):
    def step(self, action: str) -> StepResult:
        return StepResult(reward=1.0, done=True)


class Inverted(Fine):
    def step(self, action: str) -> StepResult:
        return StepResult(reward=float(action != self.word), done=True)


class Fragile(Fine):
    def step(self, action: str) -> StepResult:
        float(action[0] == "a")
        return super().step(action)


class Slow(Fine):
    """Once, which is as bad; it leaves a busy machine much time until the limit."""

    limits = Limits(step_s=5.0)
    is_slow = False

    def step(self, action: str) -> StepResult:
        if Slow.is_slow:
            Slow.is_slow = False
            time.sleep(2.51)
        return super().step(action)


class Hanging(Fine):
    limits = Limits(reset_s=0.2)

    def reset(self, task: None, ctx: Context) -> str:
        time.sleep(3600)
        return ""


class Stubborn(Fine):
    """Catches what interrupts it."""

    limits = Limits(step_s=0.2)

    def step(self, action: str) -> StepResult:
        while True:
            with contextlib.suppress(Exception):
                time.sleep(3600)


class Awaiting(Fine):
    limits = Limits(step_s=0.2)

    async def step(self, action: str) -> StepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        return await self._fetch()

    async def _fetch(self) -> StepResult:
        await asyncio.sleep(3600)
        return StepResult()


class Deaf(Fine):
    """Native code that heeds no signal and lets no thread run."""

    limits = Limits(step_s=0.2)

    def step(self, action: str) -> StepResult:
        lock = ctypes.create_string_buffer(64)
        libc = ctypes.PyDLL(None)
        libc.pthread_mutex_lock(lock)
        libc.pthread_mutex_lock(lock)
        return super().step(action)


class Crashing(Fine):
    def step(self, action: str) -> StepResult:
        print("almost there", end="")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
        return super().step(action)


class Talking(Fine):
    def reset(self, task: None, ctx: Context) -> str:
        print("a new word")
        subprocess.run(["echo", "a child speaks"], check=True)
        return super().reset(task, ctx)


class Hoarding(Fine):
    kept: list[bytes] = []  # noqa: RUF012 - that is the point

    def reset(self, task: None, ctx: Context) -> str:
        self.kept.append(random.Random(0).randbytes(2 * 1024 * 1024))
        return super().reset(task, ctx)


class Unscored(Fine):
    async def step(self, action: str) -> StepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        return StepResult(reward=float("nan"), done=True)


class Ranking(Fine):
    """It rewards nobody by himself."""

    def step(self, action: str) -> StepResult:
        return StepResult(done=True)

    def score_group(self, transcripts: Sequence[EpisodeTranscript], task: None) -> list[float]:
        return [float(len(each.response)) for each in transcripts]


class Dividing(Ranking):
    """A group of one it can't compare."""

    def score_group(self, transcripts: Sequence[EpisodeTranscript], task: None) -> list[float]:
        return [number / (len(transcripts) - 1) for number in range(len(transcripts))]


class Nameless(Ranking):
    """It tells the best alone."""

    def score_group(self, transcripts: Sequence[EpisodeTranscript], task: None) -> list[float]:
        return [1.0]
