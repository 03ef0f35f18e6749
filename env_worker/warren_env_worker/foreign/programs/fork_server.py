"""A process for each connection: `python fork_server.py SOCKET PROGRAM MEMORY_MB MAX_LINE_BYTES`.

The program, a file with a class `Episode`, is imported once, and then `ready` is written; each connection to the socket is an episode in a
process that is forked from here. Requests and replies are JSON, a line each. The process begins with `{}`, before
which nothing is asked: a connection that is refused and closed would else lose the refusal to the failing request.
Then comes `{"make": {…}}`, which calls `make` and `begin` and answers what `begin` returns, and may have `variables`, which are set in
the environment of this process alone before; then `{"step": "…"}`. What raises, or can't be told in JSON and so
many bytes, is answered with `error`; `misfit` says that `make` raised, so that what it got is to blame.

Invariants: a connection that is closed takes its process with it, whatever that is doing; a process that dies
closes its connection; whatever an episode's process has started is gone with it; when standard input ends, or this
process dies, all episodes' processes are gone; with its parent, or when it is told to end, it removes its socket, and the
folder if that held nothing else. A connection that no process can be made for is told so and closed, and the others notice
nothing.
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
from functools import partial
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLLRDHUP = 0x2000
BACKLOG = 4096
"""More connections at once would fail, not wait."""
MAX_FILES = 65_536
STDIN, STDOUT, STDERR = 0, 1, 2


class ForkServer:
    def __init__(
        self, listener: socket.socket, program: Any, memory_mb: int, max_line_bytes: int
    ) -> None:
        self._listener = listener
        self._program = program
        self._memory_mb = memory_mb
        self._max_line_bytes = max_line_bytes
        self._poll = select.poll()
        self._poll.register(STDIN, select.POLLIN)
        self._poll.register(listener, select.POLLIN)
        self._episodes: dict[int, _Episode] = {}
        """By the descriptor of its connection, and by that of the pipe which ends with its process."""
        self._reserve = os.open(os.devnull, os.O_RDONLY)
        """Given up for a moment to tell a connection that there are no more descriptors."""

    def serve(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == STDIN:
                    return
                if descriptor == self._listener.fileno():
                    self._take()
                elif descriptor in self._episodes:
                    self._end(self._episodes[descriptor])

    def _take(self) -> None:
        """The connection that waits longest."""
        try:
            connection = self._listener.accept()[0]
        except OSError as error:
            os.close(self._reserve)
            try:
                refuse(self._listener.accept()[0], error)
            finally:
                self._reserve = os.open(os.devnull, os.O_RDONLY)
            return
        try:
            self._begin(connection)
        except OSError as error:
            refuse(connection, error)

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
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            process_control(PR_SET_PDEATHSIG, signal.SIGKILL)
            process_control(PR_SET_CHILD_SUBREAPER, 1)
            os.close(life)
            self._listener.close()
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
        told = " ".join(f"{type(error).__name__}: {error}".split())
        failure = {"error": told[:300], "misfit": not is_made}
        return json.dumps(failure).encode(errors="replace") + b"\n"


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
    path, program, *sizes = sys.argv[1:]
    raise_open_files_limit()
    signal.signal(signal.SIGTERM, partial(end_by, path))
    process_control(PR_SET_PDEATHSIG, signal.SIGTERM)
    process_control(PR_SET_CHILD_SUBREAPER, 1)
    ready = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)  # games print
    module = imported(program)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(BACKLOG)
        os.write(ready, b"ready\n")
        os.close(ready)
        ForkServer(listener, module, *map(int, sizes)).serve()
        remove(path)
        os._exit(0)  # at once: what the package has to end with may wait


def remove(path: str) -> None:
    """The parent may have gone, and can remove nothing any more."""
    with suppress(OSError):
        os.unlink(path)
    with suppress(OSError):
        os.rmdir(os.path.dirname(path))


def end_by(path: str, number: int, _: object) -> None:
    """A signal, as it would have ended this process without being heard."""
    remove(path)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    main()
