"""A process for each connection: `python fork_server.py PROGRAM MEMORY_MB MAX_LINE_BYTES`.

The program, a file with a class `Episode`, is imported once, and then `ready` is written. Standard input is a socket: each byte
there comes with the descriptor of a connection, which is an episode in a process that is forked from here. Nothing of it lies on a
disk, where it could be left behind. Requests and replies are JSON, a line each. The process begins with `{}`, before
which nothing is asked: a connection that is refused and closed would else lose the refusal to the failing request.
Then comes `{"make": {…}}`, which calls `make` and `begin` and answers what `begin` returns, and may have `variables`, which are set in
the environment of this process alone before; then `{"step": "…"}`. What raises, or can't be told in JSON and so
many bytes, is answered with `error`; `misfit` says that `make` raised, so that what it got is to blame.

Invariants: a connection that is closed takes its process with it, whatever that is doing; a process that dies
closes its connection; whatever an episode's process has started is gone with it; when standard input ends, or this
process or its parent dies, all episodes' processes are gone. A connection that no process can be made for is told so and
closed, and the others notice nothing.
"""

import ctypes
import importlib.util
import json
import math
import os
import resource
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLLRDHUP = 0x2000
MAX_FILES = 65_536
MAX_MESSAGE_CHARS = 65_536
"""Of a failure: it is told in one line."""
STDIN, STDOUT, STDERR = 0, 1, 2


class ForkServer:
    def __init__(
        self, connections: socket.socket, program: Any, memory_mb: int, max_line_bytes: int
    ) -> None:
        self._connections = connections
        self._program = program
        self._memory_mb = memory_mb
        self._max_line_bytes = max_line_bytes
        self._poll = select.poll()
        self._poll.register(connections, select.POLLIN)
        self._episodes: dict[int, _Episode] = {}
        """By the descriptor of its connection, and by that of the pipe which ends with its process."""
        self._reserve: int | None = None
        """A descriptor that is given up for each connection that comes: one that there is none for would be closed unheard."""
        self._hold_reserve()

    def serve(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._connections.fileno():
                    if not self._take():
                        return
                elif descriptor in self._episodes:
                    self._end(self._episodes[descriptor])

    def _take(self) -> bool:
        """The connection that waits longest; False where none will come any more."""
        self._release_reserve()
        byte, descriptors, _, _ = socket.recv_fds(self._connections, 1, 1)
        for descriptor in descriptors:
            self._begin_or_refuse(socket.socket(fileno=descriptor))
        self._hold_reserve()
        return bool(byte)

    def _begin_or_refuse(self, connection: socket.socket) -> None:
        try:
            self._hold_reserve()
            self._begin(connection)
        except OSError as error:
            refuse(connection, error)

    def _hold_reserve(self) -> None:
        if self._reserve is None:
            self._reserve = os.open(os.devnull, os.O_RDONLY)

    def _release_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

    def _begin(self, connection: socket.socket) -> None:
        """Raises `OSError` where no process can be had."""
        life, held = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(life)
            os.close(held)
            raise
        if pid == 0:
            self._play(connection, life)
        os.close(held)
        episode = _Episode(pid, connection, life)
        self._poll.register(connection, POLLRDHUP)
        self._poll.register(life, 0)
        self._episodes |= {connection.fileno(): episode, life: episode}

    def _end(self, episode: "_Episode") -> None:
        for descriptor in (episode.connection.fileno(), episode.life):
            self._poll.unregister(descriptor)
            del self._episodes[descriptor]
        with suppress(ProcessLookupError):
            os.kill(episode.pid, signal.SIGKILL)
        os.waitpid(episode.pid, 0)
        episode.connection.close()
        os.close(episode.life)
        self._end_orphans()

    def _end_orphans(self) -> None:
        """What ended episodes have started is a child of this process now, and no live episode's is."""
        while orphans := own_children() - {episode.pid for episode in self._episodes.values()}:
            for pid in orphans:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _play(self, connection: socket.socket, life: int) -> NoReturn:
        """In the episode's process, to its end: nothing may unwind into the fork server's loop."""
        try:
            process_control(PR_SET_PDEATHSIG, signal.SIGKILL)
            process_control(PR_SET_CHILD_SUBREAPER, 1)
            os.close(life)
            self._connections.close()
            for episode in set(self._episodes.values()):
                episode.connection.close()
                os.close(episode.life)
            n_bytes = self._memory_mb << 20
            resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))
            answer_all(connection, self._program.Episode(), self._max_line_bytes)
        except BaseException:  # noqa: BLE001 - the log is told; the client hears its connection end
            traceback.print_exc()
        finally:
            os._exit(0)


class _Episode:
    def __init__(self, pid: int, connection: socket.socket, life: int) -> None:
        self.pid = pid
        self.connection = connection
        self.life = life


def refuse(connection: socket.socket, error: OSError) -> None:
    told = {"error": f"no process could be made for the episode: {error}", "misfit": False}
    with suppress(OSError), connection:
        connection.sendall(json.dumps(told).encode() + b"\n")


def answer_all(connection: socket.socket, episode: Any, max_bytes: int) -> None:
    with connection.makefile("rwb") as lines:
        lines.write(b"{}\n")
        lines.flush()
        for line in lines:
            lines.write(answer(episode, json.loads(line), max_bytes))
            lines.flush()


def answer(episode: Any, request: dict[str, Any], max_bytes: int) -> bytes:
    """One line; a failure is one, too."""
    is_made = "make" not in request
    try:
        if "make" in request:
            os.environ.update(request.get("variables", {}))
            episode.make(**request["make"])
            is_made = True
            return line_of(episode.begin(), max_bytes)
        return line_of(episode.step(request["step"]), max_bytes)
    except BaseException as error:  # noqa: BLE001 - foreign code may raise anything
        traceback.print_exc()
        failure = {"error": told_of(error), "misfit": not is_made}
        return json.dumps(failure).encode(errors="replace") + b"\n"


def told_of(error: BaseException) -> str:
    """Never cut, and with its blanks: the host would not recognise a changed secret in it, and takes out whole ones."""
    message = str(error)
    if len(message) > MAX_MESSAGE_CHARS:
        message = f"its message has {len(message)} characters; the log has them"
    return f"{type(error).__name__}: {message}"


def line_of(told: dict[str, Any], max_bytes: int) -> bytes:
    """Raises `ValueError`, `TypeError` for what can't be told."""
    for name, value in {**told, **told.get("metrics", {})}.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"its {name} is {value}; expected a finite number")
    line = json.dumps(told, ensure_ascii=False).encode() + b"\n"
    if len(line) > max_bytes:
        raise ValueError(f"it shows {len(line)} bytes at once; {max_bytes} can be sent")
    return line


def process_control(what: int, value: int) -> None:
    with suppress(
        OSError, AttributeError
    ):  # on other systems than Linux, the connection's end is heard
        ctypes.CDLL(None).prctl(what, value)


def raise_open_files_limit() -> None:
    """Each episode takes two descriptors, and the usual limit is 1,024."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MAX_FILES if most == resource.RLIM_INFINITY else min(most, MAX_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, allowed), most))


def own_children() -> set[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:
            return {int(pid) for pid in listed.read().split()}
    except OSError:
        return set()


def imported(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    program, *sizes = sys.argv[1:]
    raise_open_files_limit()
    process_control(PR_SET_PDEATHSIG, signal.SIGKILL)
    process_control(PR_SET_CHILD_SUBREAPER, 1)
    connections, ready = own_channels()
    module = imported(program)
    os.write(ready, b"ready\n")
    os.close(ready)
    ForkServer(connections, module, *map(int, sizes)).serve()
    os._exit(0)  # at once: what the package has to end with may wait


def own_channels() -> tuple[socket.socket, int]:
    """Standard input and output, which nothing else reads or writes from now on: games ask and print."""
    connections = socket.socket(fileno=os.dup(STDIN))
    ready = os.dup(STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    os.dup2(STDERR, STDOUT)
    return connections, ready


if __name__ == "__main__":
    main()
