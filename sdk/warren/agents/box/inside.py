"""Process 1 of a box: `python ARCHIVE LIMITS COMMAND…`. It starts the program and ends with it.

Its standard input is a socket to the worker. Where the program may reach the endpoint alone, the first message there
is a socket that listens at the endpoint's address in the box's own network; the last one says how the program ended.

Invariants: nobody in the box can signal, trace or read this process, or has its socket; when it reports, nothing else
lives in the box, so that nobody changes the reward any more; the box ends when the worker lets go of the socket.
"""

import json
import os
import resource
import select
import signal
import socket
import stat
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import NoReturn

from warren.agents.subreaper import STDIN, become, process_control, reaped, wakes_by

PR_SET_DUMPABLE = 4
MIN_PAUSE_S, MAX_PAUSE_S = 0.01, 0.25
"""Between two looks at what the program uses."""
FASTEST_BYTES_S = 4 << 30
"""No program takes memory faster than about this: what is left tells when to look again."""
FILE_BYTES = 1 << 10
N_OPEN_FILES = 1024
MAX_REWARD_BYTES = 256
FIRST_KILLED = 1000
"""What the kernel thinks of killing a process of the box when the machine has no memory left."""
N_OF_OURS = 2
"""Processes that the kernel counts besides: this one, and one more than the limit, which is seen and ends it."""


@dataclass(frozen=True, slots=True)
class Limits:
    memory_bytes: int
    n_processes: int
    reward: str
    """Path of the file."""
    files: tuple[str, ...]
    """Where the program may write: file systems that lie in memory."""
    listens: tuple[str, int] | None
    """Address of the endpoint."""


@dataclass(frozen=True, slots=True)
class Report:
    """How the program ended."""

    status: int = 0
    """Its exit code, or the number of the signal that ended it, negative."""
    broke: str = ""
    """The limit that it broke: `memory_mib`, or `processes`."""
    reward: str | None = None


def main() -> None:
    process_control(PR_SET_DUMPABLE, 0)
    os.closerange(STDIN + 3, os.sysconf("SC_OPEN_MAX"))
    limits, command = Limits(**json.loads(sys.argv[1])), sys.argv[2:]
    worker = socket.socket(fileno=STDIN)
    if limits.listens is not None:
        host, port = limits.listens
        hand_over_listener(worker, (host, port))
    wakes = wakes_by(signal.SIGCHLD)
    program = os.fork()
    if program == 0:
        be_limited(limits)
        become(command)
    report = Watch(limits, program).report(wakes)
    end_all()
    told = asdict(report) | {"reward": reward_in(limits.reward)}
    with suppress(OSError):
        worker.send(json.dumps(told).encode())
    os._exit(0)


def hand_over_listener(worker: socket.socket, address: tuple[str, int]) -> None:
    with socket.create_server(address, backlog=128) as listener:
        socket.send_fds(worker, [b"listener"], [listener.fileno()])


def be_limited(limits: Limits) -> None:
    n_processes = limits.n_processes + N_OF_OURS
    for which, most in (
        (resource.RLIMIT_NPROC, n_processes),
        (resource.RLIMIT_FSIZE, limits.memory_bytes),
        (resource.RLIMIT_NOFILE, N_OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(which, (most, most))
    process_control(PR_SET_DUMPABLE, 1)  # its own files in /proc are not its own until then
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(FIRST_KILLED))


class Watch:
    """Looks at what a program and all that it started use, until it ends."""

    def __init__(self, limits: Limits, program: int) -> None:
        self._limits = limits
        self._program = program
        self._next_look_s = 0.0

    def report(self, wakes: int) -> Report:
        while True:
            pause_s = max(self._next_look_s - time.monotonic(), 0.0)
            readable, _, _ = select.select([STDIN, wakes], [], [], pause_s)
            if wakes in readable:
                os.read(wakes, 4096)
            while (ended := reaped()) is not None:
                if ended[0] == self._program:
                    return Report(os.waitstatus_to_exitcode(ended[1]))
            if STDIN in readable:
                gone()
            if time.monotonic() >= self._next_look_s and (broke := self._look()):
                return Report(broke=broke)

    def _look(self) -> str:
        """The limit that is broken, if one is."""
        limits, processes = self._limits, others()
        n_tasks, n_bytes = usage(processes)
        n_file_bytes = sum(map(taken_bytes, limits.files))
        if n_bytes + n_file_bytes > limits.memory_bytes:
            n_bytes = sum(map(own_bytes, processes))
        left_bytes = limits.memory_bytes - n_bytes - n_file_bytes
        if n_tasks > limits.n_processes:
            return "processes"
        pause_s = min(max(left_bytes / FASTEST_BYTES_S, MIN_PAUSE_S), MAX_PAUSE_S)
        self._next_look_s = time.monotonic() + pause_s
        return "memory_mib" if left_bytes < 0 else ""


def gone() -> NoReturn:
    """The worker is, or needs the program no more; with process 1 the kernel ends all others."""
    os._exit(1)


def others() -> list[int]:
    """All processes but this one: a box shows its own alone."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def usage(processes: list[int]) -> tuple[int, int]:
    """Their threads, and their memory in bytes: what they share counts for each."""
    n_threads = n_pages = 0
    for process in processes:
        with suppress(OSError), open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            n_threads += int(fields[17])
            n_pages += int(fields[21])
    return n_threads, n_pages * resource.getpagesize()


def own_bytes(process: int) -> int:
    """Its memory, with its share of what it has in common with others. One that hides that has it all."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as file:
            found = next(line for line in file if line.startswith(b"Pss:"))
        return int(found.split()[1]) << 10
    except (OSError, StopIteration):
        return usage([process])[1]


def taken_bytes(folder: str) -> int:
    """Of the files there, with what the kernel keeps for an empty one."""
    found = os.statvfs(folder)
    n_files = found.f_files - found.f_ffree
    return (found.f_blocks - found.f_bfree) * found.f_frsize + n_files * FILE_BYTES


def end_all() -> None:
    while True:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def reward_in(path: str) -> str | None:
    """The beginning of what the file holds; None where there is no regular one."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.read(descriptor, MAX_REWARD_BYTES).decode(errors="replace")
    return None
