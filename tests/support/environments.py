"""Environments that misbehave on request, for tests of the host and the env worker.

Each does one thing wrong in the place that its config names, and plays along otherwise: the task is
a letter, the policy says it `n_turns` times, each time for a reward of 1.
"""

import asyncio
import ctypes
import logging
import multiprocessing
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal, cast

from warren.environment import ChatMessage, Context, Env, Image, Isolation, Limits, StepResult

LIMIT_S = 5.0
"""Of calls of which one hangs: those beside it are in time also where others keep the CPU busy."""


class Letters(Env):
    """Well-behaved."""

    name = "letters"
    isolation = "shared"
    limits = Limits(reset_s=60.0, step_s=60.0)

    def __init__(self, n_turns: int = 3, letters: str = "abcdefgh") -> None:
        self.n_turns = n_turns
        self.letters = letters
        self.n_taken = 0

    def reset(self, task: None, ctx: Context) -> str:
        self.letter = ctx.rng.choice(self.letters)
        return self.letter

    def step(self, action: str) -> StepResult:
        self.n_taken += 1
        is_right = action == self.letter
        self.letter = self.letters[(self.letters.index(self.letter) + 1) % len(self.letters)]
        return StepResult(
            observation=self.letter,
            reward=float(is_right),
            done=self.n_taken >= self.n_turns,
            metrics={"right": float(is_right)},
        )

    def demonstrate(self, rng: random.Random) -> str:
        return rng.choice(self.letters)


class Levelled(Env):
    """Shows the level of its task."""

    name = "levelled"
    has_levels = True

    def reset(self, task: None, ctx: Context) -> str:
        return f"level {ctx.level}"

    def step(self, action: str) -> StepResult:
        return StepResult(reward=0.0, done=True)


class Steady(Env):
    """For curricula: what its tasks bring follows from their level alone. Level 0 is always solved, level 1 by every
    other member of a group, and all others never."""

    name = "steady"
    has_levels = True

    def reset(self, task: None, ctx: Context) -> str:
        assert ctx.level is not None
        self.is_solved = ctx.level == 0 or (ctx.level == 1 and ctx.member % 2 == 0)
        return "?"

    def step(self, action: str) -> StepResult:
        return StepResult(reward=float(self.is_solved), done=True)


class Sorted(Env[str]):
    """With tasks, each with an id and of a category: the reward is 1 for the letter that is the task."""

    name = "sorted"
    isolation = "shared"

    def tasks(self, split: str) -> list[str]:
        return list("abcdefgh")

    def id_of(self, task: str) -> str:
        return f"letter {task}"

    def reset(self, task: str, ctx: Context) -> str:
        self.letter = task
        self.category = "vowel" if task in "aeiou" else "consonant"
        return task

    def step(self, action: str) -> StepResult:
        return StepResult(reward=float(action == self.letter), done=True)


class Scarce(Letters):
    """Two at a time."""

    name = "scarce"
    limits = Limits(reset_s=60.0, step_s=60.0, max_episodes=2)


class Hostile(Letters):
    """Does `deed` when the policy says `evil`, or in `reset` if `evil_reset`."""

    name = "hostile"
    limits = Limits(reset_s=60.0, step_s=60.0)

    def __init__(self, deed: str = "raise_error", evil_reset: bool = False) -> None:
        super().__init__()
        self.deed = deed
        self.evil_reset = evil_reset

    def reset(self, task: None, ctx: Context) -> str:
        first = super().reset(task, ctx)
        return cast("str", DEEDS[self.deed]()) if self.evil_reset else first

    def step(self, action: str) -> StepResult:
        result = super().step(action if action != "evil" else "a")
        if action != "evil":
            return result
        return cast("StepResult", DEEDS[self.deed]())


class Hurried(Hostile):
    """For deeds that never end."""

    name = "hurried"
    limits = Limits(reset_s=LIMIT_S, step_s=LIMIT_S)


class SlowStarter(Hostile):
    """May load for an hour, and hangs in `step`."""

    name = "slow-starter"
    limits = Limits(load_s=3600.0, reset_s=3600.0, step_s=0.5)

    def __init__(self) -> None:
        super().__init__(deed="hang")

    def reset(self, task: None, ctx: Context) -> str:
        time.sleep(0.6)  # so that the watch sees this call
        return super().reset(task, ctx)


class Unreplayable(Hostile):
    name = "unreplayable"
    replayable = False


class Fickle(Letters):
    """Says that it is replayable, and takes its chance from the clock."""

    name = "fickle"

    def reset(self, task: None, ctx: Context) -> str:
        super().reset(task, ctx)
        return f"{self.letter} at {time.monotonic_ns()}"


class Patient(Letters):
    """Waits for as many seconds as the policy says, without blocking the others."""

    name = "patient"

    async def reset(self, task: None, ctx: Context) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        await asyncio.sleep(0)
        return super().reset(task, ctx)

    async def step(self, action: str) -> StepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        if action == "block":
            time.sleep(3600)  # noqa: ASYNC251 - that is the point
        if action.startswith("wait "):
            await asyncio.sleep(float(action.removeprefix("wait ")))
        return super().step("a")


class Impatient(Patient):
    """May not wait that long."""

    name = "impatient"
    limits = Limits(reset_s=60.0, step_s=LIMIT_S)


class Delayed(Patient):
    """Kills its process a little after it was told to, while all its episodes wait."""

    name = "delayed"

    async def step(self, action: str) -> StepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        if action == "bomb":
            threading.Timer(0.05, os._exit, [9]).start()
            return await super().step("wait 3600")
        return await super().step("wait 0.2")


class Dropped(Delayed):
    """Counts the instances that live in its process."""

    name = "dropped"
    n_live = 0

    async def reset(self, task: None, ctx: Context) -> str:
        Dropped.n_live += 1
        return await super().reset(task, ctx)

    async def step(self, action: str) -> StepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        if action.startswith("wait "):
            return await Patient.step(self, action)
        result = await super().step(action)
        return replace(result, metrics={"n_live": float(Dropped.n_live)})


class Sleepy(Letters):
    """Sleeps until the file is there that the policy names, and blocks its process by it."""

    name = "sleepy"

    def step(self, action: str) -> StepResult:
        while action.startswith("until ") and not os.path.exists(action.removeprefix("until ")):
            time.sleep(0.01)
        return super().step("a")


class Generous(Letters):
    name = "generous"

    def step(self, action: str) -> StepResult:
        return StepResult("more?", reward=sys.float_info.max)


class Verbose(Letters):
    name = "verbose"

    def step(self, action: str) -> StepResult:
        return StepResult("x" * 190_000)


class HangingClose(Letters):
    name = "hanging-close"
    limits = Limits(reset_s=60.0, step_s=LIMIT_S)

    def close(self) -> None:
        time.sleep(3600)


class Tasked(Env[str]):
    """Shows its task."""

    name = "tasked"

    def __init__(self, n_tasks: int = 5) -> None:
        self.n_tasks = n_tasks

    def tasks(self, split: str) -> list[str]:
        if split == "missing":
            raise FileNotFoundError("no file for the split missing")
        return [f"{split} {i}" for i in range(self.n_tasks)]

    def reset(self, task: str, ctx: Context) -> list[ChatMessage]:
        return [ChatMessage(role="user", content=task)]

    def system_prompt(self) -> str:
        return "Be brief."

    def step(self, action: str) -> StepResult:
        return StepResult(reward=0.0, done=True)


class Secretive(Env):
    """Names its secrets, and tells one of them where it should not: in an error."""

    name = "secretive"

    def reset(self, task: None, ctx: Context) -> str:
        self.secrets = ctx.secrets
        return " ".join(f"{name}={len(value)}" for name, value in ctx.secrets.items()) or "none"

    def step(self, action: str) -> StepResult:
        raise PermissionError(f"401 for key {self.secrets['JUDGE_KEY']}")


class Prompting(Letters):
    """Has a system prompt of its own idea."""

    name = "prompting"

    def system_prompt(self) -> str:
        return cast("str", {"role": "system", "content": "Be brief."})


class Unheard(Letters):
    """Speaks in a role that there is none."""

    name = "unheard"

    def reset(self, task: None, ctx: Context) -> list[ChatMessage]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return [ChatMessage.model_construct(role=cast("Literal['user']", "nobody"), content="?")]


class Numbered(Letters):
    version = cast("str", 2)


class Unlimited(Letters):
    limits = cast("Limits", {"step_s": 5.0})


class Isolated(Letters):
    isolation = cast("Isolation", "thread")


class Filed(Letters):
    """Takes its time to load every split but one, each episode in a process of its own."""

    name = "filed"
    isolation = "process"
    limits = Limits(load_s=60.0, reset_s=60.0, step_s=1.0)

    def tasks(self, split: str) -> None:
        if split != "train":
            time.sleep(7.0)  # longer than a process may be silent


class Managing(Letters):
    """Has a process of its own, forked with all that the episode's process has open."""

    name = "managing"
    isolation = "process"

    def reset(self, task: None, ctx: Context) -> str:
        self.manager = multiprocessing.get_context("fork").Manager()
        return super().reset(task, ctx)


class NoSteps(Env):
    def reset(self, task: None, ctx: Context) -> str:
        return "?"


class NotAnEnvironment:
    pass


def _raise_error() -> object:
    raise ValueError("no such\nmove")


def _raise_garbage() -> object:
    raise ValueError("\ud800 is no text")


def _hang() -> object:
    while True:
        time.sleep(3600)


def _spin() -> object:
    while True:
        pass


def _segfault() -> object:
    return ctypes.string_at(0)


def _print_much() -> object:
    for _ in range(1000):
        print("x" * 100)
    os.write(1, b"\0\xff raw bytes on the standard output\n")
    return StepResult(reward=0.0, done=True)


DEEDS: dict[str, Callable[[], object]] = {
    "raise_error": _raise_error,
    "raise_exit": lambda: sys.exit(3),
    "hang": _hang,
    "spin": _spin,
    "exit": lambda: os._exit(7),
    "segfault": _segfault,
    "print_much": _print_much,
    "be_huge": lambda: StepResult(observation="x" * 1_000_000),
    "be_nan": lambda: StepResult(reward=float("nan")),
    "be_infinite": lambda: StepResult(reward=float("inf")),
    "be_text": lambda: StepResult(reward=cast("float", "1.0")),
    "have_bad_metric": lambda: StepResult(metrics={"x": float("nan")}),
    "return_none": lambda: None,
    "return_tuple": lambda: ("?", 1.0, True),
    "speak_for_policy": lambda: StepResult([ChatMessage(role="assistant", content="me")]),
    "raise_garbage": _raise_garbage,
    "be_unencodable": lambda: StepResult("\ud800"),
}


class Painted(Env):
    """Shows a picture."""

    name = "painted"
    isolation = "shared"

    def reset(self, task: None, ctx: Context) -> list[ChatMessage]:
        return [ChatMessage(role="user", content="?", images=(Image.of(b"\xff\xd8\xff"),))]

    def step(self, action: str) -> StepResult:
        return StepResult(reward=1.0, done=True)


class Blabber(Letters):
    """Tells its secret in every way there is, and fails with it."""

    name = "blabber"
    isolation = "process"

    def step(self, action: str) -> StepResult:
        token = self.context.secrets["TOKEN"]
        print("printed", token)
        logging.getLogger("blabber").error("logged %s", token)
        os.write(1, f"written {token}\n".encode())
        raise ValueError(f"raised {token}")


class SharedBlabber(Blabber):
    """The same in a process that it shares; there, only what goes through Python can be held back."""

    isolation = "shared"

    def step(self, action: str) -> StepResult:
        token = self.context.secrets["TOKEN"]
        print("printed", token)
        logging.getLogger("blabber").error("logged %s", token)
        raise ValueError(f"raised {token}")


class Speaker(Letters):
    """Prints from Python and from below it."""

    isolation = "process"

    def step(self, action: str) -> StepResult:
        print("printed by Python")
        os.write(1, b"printed from below")
        return super().step(action)


class SharedSpeaker(Speaker):
    isolation = "shared"


class LastWords(Letters):
    """Ends right after it has spoken, within a line."""

    isolation = "process"

    def step(self, action: str) -> StepResult:
        os.write(1, b"goodbye")
        os._exit(1)


class Hoarding(Letters):
    """Keeps 8 MiB for each letter that is said, for as long as the process lives; "!" wants 4 GiB."""

    name = "hoarding"
    limits = Limits(reset_s=60.0, step_s=60.0, memory_mb=64)
    kept: ClassVar[list[bytearray]] = []

    def step(self, action: str) -> StepResult:
        self.kept.append(bytearray(4 << 30 if action == "!" else 8 << 20))
        return replace(super().step(action), metrics={"process": float(os.getpid())})


class HoardingUnreplayable(Hoarding):
    replayable = False
