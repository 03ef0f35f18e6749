"""Server processes that belong to the test run: own port, own folder, and they die with it."""

import asyncio
import atexit
import contextlib
import itertools
import os
import random
import select
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

from tests.support.patience import PATIENCE_S

_FIRST_PORT, _PORTS_END = 10_240, 16_000
"""Below all that systems give to who asks for any port, or one may be gone before its server is up."""
_MOST_TESTERS = 16
_TESTER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _MOST_TESTERS
_PORTS = range(_FIRST_PORT + _TESTER, _PORTS_END, _MOST_TESTERS)
"""Of this process; those that test beside it have others."""
_MOST_HELD = 64
_held = deque[socket.socket]()
_programs: list[asyncio.subprocess.Process] = []
_next_ports = itertools.cycle(random.sample(_PORTS, len(_PORTS)))


def free_port() -> int:
    """A TCP port on loopback that nobody listens on, and that nobody but the caller will be given.

    A socket that never listens keeps it for a while from other sessions of tests; a server, which
    says `SO_REUSEADDR`, may listen there beside it.
    """
    for port in itertools.islice(_next_ports, len(_PORTS)):
        held = socket.socket()
        try:
            held.bind(("127.0.0.1", port))
        except OSError:
            held.close()
            continue
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _hold(held)
        return port
    raise RuntimeError(f"every port of {_PORTS} is in use")


def _hold(held: socket.socket) -> None:
    if len(_held) == _MOST_HELD:
        _held.popleft().close()
    _held.append(held)


@atexit.register
def _let_go() -> None:
    while _held:
        _held.popleft().close()


def listens(port: int) -> bool:
    """Whether somebody does, on loopback."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def spawn(
    command: Sequence[str],
    *,
    log_path: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    user: str | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a server in a session of its own; the kernel kills it when the calling thread ends."""
    with log_path.open("ab") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", *_as_user(user), *command],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


async def start_program(
    *command: str,
    environment: Mapping[str, str],
    folder: Path | None = None,
    stdin: int | None = None,
    stdout: int | None = asyncio.subprocess.PIPE,
    stderr: int | None = asyncio.subprocess.PIPE,
) -> asyncio.subprocess.Process:
    """A program as a user starts it. `kill_programs` ends it with its test, however that ends."""
    process = await asyncio.create_subprocess_exec(
        "setpriv", "--pdeathsig=KILL", *command, env=environment, cwd=folder,
        stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True,
    )  # fmt: skip
    _programs.append(process)
    return process


def kill_programs() -> None:
    """Those that are still there, with all that they started in their session."""
    while _programs:
        process = _programs.pop()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def run(command: Sequence[str], *, folder: Path, user: str | None = None) -> None:
    """Run a program to its end. Raises with its output when it fails."""
    full = ["setpriv", *_as_user(user), *command] if user else command
    done = subprocess.run(full, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def signal_group(process: "subprocess.Popen[bytes]", signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signum)


def end(process: "subprocess.Popen[bytes]", signum: signal.Signals, *, grace_s: float) -> None:
    """Ask with `signum`; kill what is still there after `grace_s`."""
    process.send_signal(signum)
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGKILL)
        process.wait()


def children(pid: int) -> list[int]:
    """Of all threads of a process; none of one that has ended meanwhile."""
    threads, found = list[str](), list[int]()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        threads += os.listdir(f"/proc/{pid}/task")
    for thread in threads:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """All processes below this one, parents first; nothing for one that has ended meanwhile."""
    return [found for child in children(pid) for found in [child, *descendants(child)]]


def children_running(module: str) -> list[int]:
    """Those of this process's children that run a module of this name, and none of the others."""
    return [pid for pid in children(os.getpid()) if module in command_line(pid)]


def forks_running(module: str) -> list[int]:
    """Those forked off fork servers and zygotes of this process that run a module of this name."""
    servers = [*children_running("forking.server"), *children_running("tests.support.zygote")]
    forks = [pid for server in servers for pid in children(server)]
    return [pid for pid in forks if module in command_line(pid)]


def command_line(pid: int) -> str:
    """Nothing for what has ended meanwhile."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def kill_and_wait(pids: Sequence[int]) -> None:
    """Kill processes that are not our own children, and return when they are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError), _pidfd(pid) as process:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [])


def is_alive(pid: int) -> bool:
    """Whoever's child it is; False for one that nobody has reaped yet."""
    try:
        with _pidfd(pid) as process:
            return not select.select([process], [], [], 0)[0]
    except ProcessLookupError:
        return False


async def until_dead(pid: int) -> None:
    """Return when it has ended, whoever's child it is. Raises `TimeoutError`."""
    with contextlib.suppress(ProcessLookupError), _pidfd(pid) as process:
        loop, dead = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(process, dead.set)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await dead.wait()
        finally:
            loop.remove_reader(process)


async def until_none(left: Callable[[], Sequence[object]]) -> None:
    """Return when no process is left, for some die a moment after their parents. Raises `AssertionError` with those that stay."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while left():  # noqa: ASYNC110 - the kernel tells nobody but their parents
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"processes are left: {left()}") from None


@contextlib.contextmanager
def _pidfd(pid: int) -> Generator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def wait_until(
    is_ready: Callable[[], bool],
    process: "subprocess.Popen[bytes]",
    *,
    deadline_s: float,
    log_path: Path,
) -> None:
    """Ask until the server is ready. Raises with the end of its log when it ends or takes too long."""
    end_s = time.monotonic() + deadline_s
    while not is_ready():
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{_tail(log_path)}")
        if time.monotonic() > end_s:
            raise TimeoutError(f"not ready within {deadline_s} s:\n{_tail(log_path)}")
        time.sleep(0.05)


def _as_user(user: str | None) -> list[str]:
    return [f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []


def _tail(log_path: Path) -> str:
    return log_path.read_text(errors="replace")[-3000:]
