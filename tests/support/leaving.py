"""Environments that leave something behind in their process, each in its own way."""

import importlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Callable

import numpy as np

from warren.environment import Context, Env, Limits, StepResult

SEEN: list[str] = []
KNOWN: dict[str, int] = {"n": 0}
GENERATOR = random.Random(0)
n_played = 0
_forever = threading.Event()


class Leaver(Env):
    """One turn; what the policy says is done. Tells the process that it is in."""

    name = "leaver"
    limits = Limits(reset_s=60.0, step_s=60.0, memory_mb=512)
    n_made = 0

    def reset(self, task: None, ctx: Context) -> str:
        return f"{random.random()} {np.random.random()}"

    def step(self, action: str) -> StepResult:
        DEEDS[action]()
        return StepResult(reward=1.0, done=True, metrics={"pid": float(os.getpid())})


class StrictLeaver(Leaver):
    isolation = "episode"


class ShortLived(Leaver):
    limits = Limits(reset_s=60.0, step_s=60.0, episodes_per_process=3)


class CrashingClose(Leaver):
    def close(self) -> None:
        os._exit(5)


class RaisingClose(Leaver):
    def close(self) -> None:
        raise OSError("can't close")


class Splitting(Leaver):
    """Has tasks, and shows them."""

    name = "splitting"

    def tasks(self, split: str) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return [split]

    def reset(self, task: str, ctx: Context) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return task


def _nothing() -> None:
    pass


def _draw() -> None:
    random.random()
    np.random.random()


def _start_thread() -> None:
    threading.Thread(target=_forever.wait, daemon=True).start()


def _start_process() -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])


def _orphan_process() -> None:
    """One that its parent has left, in a session of its own."""
    subprocess.run(["setsid", "-f", "sleep", "3600"], check=True)


def _rebind() -> None:
    global n_played
    n_played += 1


def _count_in_class() -> None:
    Leaver.n_made += 1


def _count_in_dict() -> None:
    KNOWN["n"] = KNOWN["n"] + 1


def _patch() -> None:
    os.urandom = _nine


def _nine(size: int) -> bytes:
    return b"9" * size


def _make_module() -> None:
    sys.modules["solution"] = types.ModuleType("solution")


def _import_late() -> None:
    importlib.import_module("colorsys")


def _hide_memory() -> None:
    _hidden().append(bytearray(100 * 1024 * 1024))


def _hider() -> Callable[[], list[bytearray]]:
    held: list[bytearray] = []
    return lambda: held


_hidden = _hider()

LEFTOVERS: dict[str, tuple[Callable[[], object], str]] = {
    "thread": (_start_thread, "a thread"),
    "process": (_start_process, "a child process"),
    "orphan": (_orphan_process, "a child process"),
    "file": (lambda: os.open("/dev/null", os.O_RDONLY), "an open file or connection"),
    "folder": (lambda: os.chdir(tempfile.gettempdir()), "another working folder"),
    "variable": (lambda: os.environ.update(LEFT="1"), "changed environment variables"),
    "umask": (lambda: os.umask(0o007), "another umask"),
    "signal": (lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN), "a signal handler"),
    "alarm": (lambda: signal.setitimer(signal.ITIMER_REAL, 3600.0), "a timer"),
    "sys.path": (lambda: sys.path.append("/nowhere"), "a changed sys.path"),
    "global": (_rebind, "a changed tests.support.leaving.n_played"),
    "class": (_count_in_class, "a changed tests.support.leaving.Leaver.n_made"),
    "list": (lambda: SEEN.append("x"), "a changed tests.support.leaving.SEEN"),
    "dict": (_count_in_dict, "a changed tests.support.leaving.KNOWN.n"),
    "generator": (GENERATOR.random, "a changed tests.support.leaving.GENERATOR"),
    "patch": (_patch, "a changed os.urandom"),
    "module": (_make_module, "the module solution"),
    "memory": (_hide_memory, "MiB of memory"),
}

DEEDS: dict[str, Callable[[], object]] = {
    "": _nothing,
    "draw": _draw,
    "import": _import_late,
    "raise": lambda: 1 / 0,
    "exit": lambda: os._exit(7),
    **{name: deed for name, (deed, _) in LEFTOVERS.items()},
}
