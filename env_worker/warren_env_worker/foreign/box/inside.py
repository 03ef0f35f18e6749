"""Process 1 of a box: `python ARCHIVE MEMORY_BYTES N_PROCESSES`. It runs commands until whoever asks is gone.

Its standard input is a socket. A line of JSON asks: `run` is the number of a command, with `command`, `folder`,
`variables`, `input` (base64), `limit_s` (None: without end) and `max_bytes`; `end` is the number of one that is wanted no more. A line
of JSON answers when that command's own process has ended: `id`, `status`, `output` and `errors` (base64), `is_late`. What a command left in
the background goes on, as in a container.

Invariants: nobody in the box can signal, trace or read this process, or has its socket; when the socket is closed, the
kernel ends all that lives here. Where the processes take more memory than they may, all of them are killed, and the
commands end as killed ones do: a policy can't choose not to be graded.
"""

import base64
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from warren.agents.box.inside import (
    FIRST_KILLED,
    N_OF_OURS,
    N_OPEN_FILES,
    PR_SET_DUMPABLE,
    gone,
    others,
    own_bytes,
    usage,
)
from warren.agents.subreaper import NO_PROGRAM, STDIN, process_control, reaped, wakes_by

LOOK_S = 0.05
"""Between two looks at the memory that is used."""
CHUNK_BYTES = 65536


class Command:
    def __init__(self, asked: dict[str, Any], n_processes: int) -> None:
        self.id: int = asked["run"]
        self.max_bytes: int = asked["max_bytes"]
        limit_s: float | None = asked["limit_s"]
        self.ends_at = None if limit_s is None else time.monotonic() + limit_s
        self.is_late = False
        self.input = base64.b64decode(asked["input"])
        (theirs, self.stdin), (self.stdout, out), (self.stderr, err) = (os.pipe() for _ in "012")
        self.pid = os.fork()
        if self.pid == 0:
            become(asked, (theirs, out, err), n_processes)
        for end in (theirs, out, err):
            os.close(end)
        os.set_blocking(self.stdin, False)
        self.kept = {self.stdout: bytearray(), self.stderr: bytearray()}
        self.open = {self.stdin, self.stdout, self.stderr}
        self.write()

    def write(self) -> None:
        """As much of its input as it takes now."""
        with suppress(BlockingIOError):
            try:
                while self.input:
                    self.input = self.input[os.write(self.stdin, self.input) :]
            except BrokenPipeError:
                self.input = b""
            self.close(self.stdin)

    def read(self, descriptor: int) -> None:
        chunk = os.read(descriptor, CHUNK_BYTES)
        kept = self.kept[descriptor]
        kept += chunk[: self.max_bytes - len(kept)]
        if not chunk:
            self.close(descriptor)

    def drain(self) -> None:
        """What it wrote; others that it left behind may hold the pipes for ever."""
        for descriptor in self.kept.keys() & self.open:
            while descriptor in self.open and select.select([descriptor], [], [], 0)[0]:
                self.read(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)
        self.open.discard(descriptor)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):  # it may not have made its group yet
            os.kill(self.pid, signal.SIGKILL)

    def answer(self, status: int) -> bytes:
        self.drain()
        for descriptor in set(self.open):
            self.close(descriptor)
        output, errors = (base64.b64encode(kept).decode() for kept in self.kept.values())
        told = {"id": self.id, "status": status, "output": output, "errors": errors}
        return json.dumps(told | {"is_late": self.is_late}).encode() + b"\n"


def become(asked: dict[str, Any], ends: tuple[int, int, int], n_processes: int) -> NoReturn:
    try:
        os.setsid()
        for number, end in enumerate(ends):
            os.dup2(end, number)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        be_limited(n_processes + N_OF_OURS)
        os.chdir(asked["folder"])
        os.execvpe(asked["command"][0], asked["command"], asked["variables"])
    except OSError as error:
        os.write(2, f"{error.filename or asked['command'][0]}: {error.strerror}\n".encode())
    finally:
        os._exit(NO_PROGRAM)


def be_limited(n_processes: int) -> None:
    for which, most in (
        (resource.RLIMIT_NPROC, n_processes),
        (resource.RLIMIT_NOFILE, N_OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(which, (most, most))
    process_control(PR_SET_DUMPABLE, 1)  # its own files in /proc are not its own until then
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(FIRST_KILLED))


class Server:
    def __init__(self, asker: socket.socket, memory_bytes: int, n_processes: int) -> None:
        self._asker = asker
        self._memory_bytes = memory_bytes
        self._n_processes = n_processes
        self._commands: dict[int, Command] = {}
        """By process."""
        self._unread = b""

    def serve(self, wakes: int) -> NoReturn:
        while True:
            pause_s = (
                LOOK_S if self._commands or others() else None
            )  # while the policy thinks, it sleeps
            readable, writable, _ = select.select(*self._waited_for(wakes), pause_s)
            for command in list(self._commands.values()):
                for descriptor in command.kept.keys() & command.open & {*readable}:
                    command.read(descriptor)
                if command.stdin in command.open & {*writable}:
                    command.write()
            if wakes in readable:
                os.read(wakes, 4096)
            self._answer()
            if STDIN in readable:
                self._take()
            self._look()

    def _waited_for(self, wakes: int) -> tuple[list[int], list[int], list[int]]:
        commands = self._commands.values()
        reading = [fd for command in commands for fd in command.kept.keys() & command.open]
        writing = [command.stdin for command in commands if command.stdin in command.open]
        return [STDIN, wakes, *reading], writing, []

    def _take(self) -> None:
        received = b""
        with suppress(ConnectionError):
            received = self._asker.recv(1 << 20)
        if not received:
            gone()
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            if "run" in asked:
                command = Command(asked, self._n_processes)
                self._commands[command.pid] = command
            for command in self._commands.values():
                if command.id == asked.get("end"):
                    command.kill()

    def _answer(self) -> None:
        while (ended := reaped()) is not None:
            command = self._commands.pop(ended[0], None)
            if command is not None:
                with suppress(ConnectionError):  # it is seen to be gone next
                    self._asker.sendall(command.answer(os.waitstatus_to_exitcode(ended[1])))

    def _look(self) -> None:
        now = time.monotonic()
        for command in self._commands.values():
            if command.ends_at is not None and now >= command.ends_at:
                command.is_late = True
                command.kill()
        if takes_more_than(self._memory_bytes):
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)


def takes_more_than(n_bytes: int) -> bool:
    processes = others()
    return usage(processes)[1] > n_bytes and sum(map(own_bytes, processes)) > n_bytes


def main() -> None:
    process_control(PR_SET_DUMPABLE, 0)
    os.closerange(STDIN + 3, os.sysconf("SC_OPEN_MAX"))
    asker = socket.socket(fileno=STDIN)
    Server(asker, *map(int, sys.argv[1:])).serve(wakes_by(signal.SIGCHLD))


if __name__ == "__main__":
    main()
