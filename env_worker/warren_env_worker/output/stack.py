"""Where a call that does not return waits: the place in the environment's own code.

The process of the environment is asked by a signal, which the interpreter's fault handler answers
even while native code runs; the signal's default is to be ignored, and hardly any program uses it.
What comes is a stack as `faulthandler` writes it, innermost frame first; of that, a person is told
the innermost frame that is the environment's own: `my_env.py:42 in step: requests.get(url)`.
"""

import contextlib
import faulthandler
import linecache
import os
import re
import select
import signal
import site
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CoroutineType, FrameType
from typing import Any, cast

SIGNAL = signal.SIGURG
MAX_LINE_CHARS = 120
PATIENCE_S = 0.25
"""How long a process may take to say where it is; the kernel may hold it."""
_QUIET_S = 0.03
_OURS = "warren_env_worker"
"""Of a built-in environment, only its own module counts."""
_OUTERMOST = ("in _run_module_as_main\n", "  ...\n")
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_DUMP = re.compile(
    r"^(?:Stack|Current thread|Thread).*\(most recent call first\):\n(?:  .*\n)*", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Place:
    path: str
    line: int
    function: str

    def __str__(self) -> str:
        words = linecache.getline(self.path, self.line).strip()
        shown = words if len(words) <= MAX_LINE_CHARS else words[:MAX_LINE_CHARS] + "…"
        return f"{_short(self.path)}:{self.line} in {self.function}" + (
            f": {shown}" if shown else ""
        )


def answer_signals(descriptor: int) -> None:
    """From now on this process writes its stack there when it is sent `SIGNAL`."""
    faulthandler.register(SIGNAL, file=descriptor, all_threads=False)


def ask(pid: int) -> None:
    """A process that has ended says nothing."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, SIGNAL)


def asked(pid: int, descriptor: int) -> str:
    """Ask a process, and read what it writes; blocks for `PATIENCE_S` at most."""
    ask(pid)
    return read_dump(descriptor, PATIENCE_S)


def read_dump(descriptor: int, patience_s: float) -> str:
    """What comes until it is quiet."""
    read, wait_s = bytearray(), patience_s
    until_s = time.monotonic() + patience_s
    while wait_s > 0 and select.select([descriptor], [], [], wait_s)[0]:
        try:
            got = os.read(descriptor, 65_536)
        except BlockingIOError:  # another one has read it
            continue
        if not got:
            break
        read += got
        wait_s = min(_QUIET_S, until_s - time.monotonic())
    return read.decode(errors="replace")


def is_whole(dump: str) -> bool:
    """Whether the outermost frame, or the deepest that is told, has come."""
    stacks = _DUMP.findall(dump)
    return bool(stacks) and stacks[-1].endswith(_OUTERMOST)


def places(dump: str) -> list[Place]:
    """Innermost first, of the last stack in it."""
    stacks = _DUMP.findall(dump)
    frames = _FRAME.findall(stacks[-1] if stacks else dump)
    return [Place(path, int(line), function) for path, line, function in frames]


def places_of_frame(frame: FrameType | None) -> Iterator[Place]:
    """Innermost first."""
    while frame is not None:
        yield Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back


def places_of_coroutine(coroutine: object) -> list[Place]:
    """Innermost first, of one that waits."""
    found: list[Place] = []
    while isinstance(coroutine, CoroutineType):
        suspended = cast("CoroutineType[Any, Any, Any]", coroutine)
        if suspended.cr_frame is not None:
            found += list(places_of_frame(suspended.cr_frame))[:1]
        coroutine = suspended.cr_await
    return found[::-1]


def own_place(stack: Iterable[Place], root: str) -> Place | None:
    """The innermost frame of the code below `root`, or of any that is neither Python's nor Warren's
    nor an installed package's."""
    return next((place for place in stack if _is_own(place.path, root)), None)


def own_root(environment: type) -> str:
    """The folder of an environment's package, or the file of its module."""
    module = environment.__module__
    package = module.partition(".")[0]
    path = Path(getattr(sys.modules.get(module), "__file__", None) or ".").resolve()
    for folder in path.parents if package != _OURS else ():
        if folder.name == package:
            return f"{folder}{os.sep}"
    return str(path)


def _is_own(path: str, root: str) -> bool:
    return path.startswith(root) or not (path.startswith("<") or _is_foreign(path))


@cache
def _is_foreign(path: str) -> bool:
    return os.path.abspath(path).startswith(_foreign_folders())


@cache
def _foreign_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    ours = [Path(__file__).parents[1], Path(linecache.__file__).parent]
    import warren
    import warren_broker

    ours += [Path(module.__file__).parent for module in (warren, warren_broker) if module.__file__]
    listed = [paths["stdlib"], paths["purelib"], paths["platlib"], *site.getsitepackages()]
    return tuple(f"{folder}{os.sep}" for folder in (*listed, *map(str, ours)))


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
