"""The first process of a sandbox: runs cells for the host, enforces their limits, and kills what they leave.

Started as `python <archive> <socket> <filter or -1> <limits as JSON>`; a socket of -1 stands for standard input and
output. Invariants: every cell gets
one reply within its time limit and a few seconds; when it is sent no process but the session lives,
and that one is stopped; what the session says is believed about itself and nothing else.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from typing import Any, Dict, List, Optional, Tuple  # noqa: UP035 - runs on old Pythons

from warren_env_worker.sandbox.inside import confinement, session, tree
from warren_env_worker.sandbox.inside.output import Output

PAUSE_S = 0.05
"""How often memory, files and the clock are looked at."""
ANSWER_S = 5.0
"""How long a session may take to say that its cell was killed."""
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PART_BYTES = 65_536

Limits = Dict[str, Any]  # noqa: UP006


class Lost(Exception):
    """The session is gone or does not answer, and all variables with it."""


class Supervisor:
    def __init__(self, limits: Limits, program: bytes) -> None:
        """`program` is a seccomp filter, where nobody else has set it."""
        self._limits = limits
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._output, output = os.pipe()
        self._control.settimeout(ANSWER_S)
        self._session = os.fork()
        if self._session == 0:
            _become_session(theirs, output, limits, program)
        theirs.close()
        os.close(output)
        os.set_blocking(self._output, False)
        self._hear(time.monotonic() + limits["start_s"], Output(0), watches=False)

    def run(self, request: Dict[str, Any]) -> Dict[str, Any]:  # noqa: UP006
        """The reply to a cell. Raises `Lost`, with what it printed."""
        output = Output(self._limits["output_bytes"])
        tree.send(self._session, signal.SIGCONT)
        status, heir = self._executed(request, output)
        if not tree.sweep(heir):
            raise Lost(output.text()[0])
        if heir == self._session and status != "died":
            tree.send(heir, signal.SIGCONT)  # its cell may have stopped it
            self._await_word()
        self._forget_words()
        self._session = heir
        tree.send(heir, signal.SIGSTOP)
        if status == "files":
            _empty(self._limits["disk"])
        self._drain(output)
        text, n_omitted = output.text()
        return {"status": status, "output": text, "n_omitted": n_omitted}

    def _executed(self, request: Dict[str, Any], output: Output) -> Tuple[str, int]:  # noqa: UP006
        """How the cell ended, and which process holds the state from now on."""
        deadline = time.monotonic() + request["limit_s"]
        try:
            number = session.NUMBER.pack(request["number"])
            self._control.sendall(number + request["code"].encode())
        except OSError as error:
            raise Lost("") from error
        stopped, word = self._hear(deadline, output, watches=True)
        if word is None:
            return stopped, self._session
        if word["outcome"] == "died":
            return "died", self._session
        if word["outcome"] not in ("ok", "error"):  # a cell speaks in its session's name
            raise Lost("")
        return word["outcome"], word["process"]

    def _hear(
        self, deadline: float, output: Output, *, watches: bool
    ) -> Tuple[str, Optional[Dict[str, Any]]]:  # noqa: UP006, UP045
        """What the session says, or why its cell must be stopped."""
        while True:
            ready, _, _ = select.select([self._control, self._output], [], [], PAUSE_S)
            if self._output in ready:
                output.add(os.read(self._output, _PART_BYTES))
            if self._control in ready:
                word = self._word()
                is_over = watches and self._is_over_memory(word)
                return ("memory", None) if is_over else ("", word)
            excess = self._excess(output) if watches else None
            if excess or time.monotonic() > deadline:
                return excess or "timeout", None

    def _is_over_memory(self, word: Dict[str, Any]) -> bool:  # noqa: UP006
        """A cell that was quicker than a look may not keep what is too much."""
        heir = word["process"]
        return heir != self._session and self._takes_too_much([heir])

    def _takes_too_much(self, processes: List[int]) -> bool:  # noqa: UP006
        return tree.resident_bytes(processes) > self._limits["memory_bytes"]

    def _word(self) -> Dict[str, Any]:  # noqa: UP006
        try:
            word = json.loads(self._control.recv(_PART_BYTES))
            process, outcome = int(word["process"]), str(word["outcome"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Lost("") from error
        if process == os.getpid():
            raise Lost("")
        return {"process": process, "outcome": outcome}

    def _await_word(self) -> None:
        """A session whose cell was killed says so; one that ended just then has spoken before."""
        while self._word()["process"] != self._session:
            pass

    def _forget_words(self) -> None:
        """Nobody that matters is left to speak; what was said by others must not be heard later."""
        self._control.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self._control.recv(_PART_BYTES):
                pass
        self._control.settimeout(ANSWER_S)

    def _excess(self, output: Output) -> Optional[str]:  # noqa: UP045
        limits = self._limits
        if output.n_bytes > limits["flood_bytes"]:
            return "output"
        processes = [process for process in tree.living() if process != self._session]
        if self._takes_too_much(processes):
            return "memory"
        if len(processes) > limits["n_processes"]:
            return "processes"
        disk = os.statvfs(limits["disk"]) if limits["disk"] else None
        if disk is not None and disk.f_files - disk.f_ffree > limits["n_files"]:
            return "files"
        return None

    def _drain(self, output: Output) -> None:
        """What was printed before the sweep: nobody is left to print more."""
        try:
            while True:
                part = os.read(self._output, _PART_BYTES)
                if not part:
                    return
                output.add(part)
        except BlockingIOError:
            return


def _empty(folder: str) -> None:
    """Else every later cell would have too many files as well."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def _become_session(control: socket.socket, output: int, limits: Limits, program: bytes) -> None:
    nothing = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2), (control.fileno(), 3)):
        os.dup2(source, target)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    control.detach()
    sys.path[:] = [path for path in sys.path if path not in sys.argv[:1]]
    sys.argv[:] = [""]
    connection = socket.socket(fileno=3)
    confinement.limit(limits)
    if limits["readable"]:
        confinement.enclose(limits["readable"], limits["devices"], program)
    elif program:
        confinement.filter_calls(program)
    connection.sendall(json.dumps({"process": os.getpid(), "outcome": "ready"}).encode())
    session.serve(connection)
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # so that nobody inside can trace or read us
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _, descriptor, program, limits = sys.argv
    host = session.Pipes() if int(descriptor) < 0 else socket.socket(fileno=int(descriptor))
    supervisor = Supervisor(json.loads(limits), _read(int(program)))
    session.send(host, {"status": "ready"})
    try:
        _serve(host, supervisor)
    finally:
        tree.sweep(keep=0)


def _serve(host: session.Connection, supervisor: Supervisor) -> None:
    while True:
        request = session.receive(host)
        if request is None:
            return
        try:
            reply = supervisor.run(request)
        except Lost as lost:
            session.send(host, {"status": "lost", "output": str(lost), "n_omitted": 0})
            return
        session.send(host, reply)


def _read(descriptor: int) -> bytes:
    if descriptor < 0:
        return b""
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read()
