"""A process for each connection: `python fork_server.py SOCKET PROGRAM MEMORY_MB`.

The program, a file with a class `Episode`, is imported once, and then `ready` is written; each connection to the socket is an episode in a
process that is forked from here. Requests and replies are JSON, a line each: `{"make": {…}}` first, then
`{"step": "…"}`.

Invariants: a connection that is closed takes its process with it, whatever that is doing; a process that dies
closes its connection; whatever an episode's process has started is gone with it; when standard input ends, or this
process dies, all episodes' processes are gone.
"""

import ctypes
import importlib.util
import json
import os
import resource
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLLRDHUP = 0x2000
BACKLOG = 4096
"""More connections at once would fail, not wait."""
STDIN, STDOUT, STDERR = 0, 1, 2


class ForkServer:
    def __init__(self, listener: socket.socket, program: Any, memory_mb: int) -> None:
        self._listener = listener
        self._program = program
        self._memory_mb = memory_mb
        self._poll = select.poll()
        self._poll.register(STDIN, select.POLLIN)
        self._poll.register(listener, select.POLLIN)
        self._episodes: dict[int, _Episode] = {}
        """By the descriptor of its connection, and by that of the pipe which ends with its process."""

    def serve(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == STDIN:
                    return
                if descriptor == self._listener.fileno():
                    self._begin(self._listener.accept()[0])
                elif descriptor in self._episodes:
                    self._end(self._episodes[descriptor])

    def _begin(self, connection: socket.socket) -> None:
        life, held = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(life)
            self._play(connection)
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

    def _play(self, connection: socket.socket) -> None:
        """In the episode's process, to its end."""
        process_control(PR_SET_PDEATHSIG, signal.SIGKILL)
        process_control(PR_SET_CHILD_SUBREAPER, 1)
        self._listener.close()
        for episode in set(self._episodes.values()):
            episode.connection.close()
            os.close(episode.life)
        n_bytes = self._memory_mb << 20
        resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))
        try:
            answer_all(connection, self._program.Episode())
        finally:
            os._exit(0)


class _Episode:
    def __init__(self, pid: int, connection: socket.socket, life: int) -> None:
        self.pid = pid
        self.connection = connection
        self.life = life


def answer_all(connection: socket.socket, episode: Any) -> None:
    with connection.makefile("rwb") as lines:
        for line in lines:
            lines.write(json.dumps(answer(episode, json.loads(line))).encode() + b"\n")
            lines.flush()


def answer(episode: Any, request: dict[str, Any]) -> dict[str, Any]:
    """A failure is a reply, too: `misfit` says that the config is to blame."""
    try:
        if "make" in request:
            return episode.make(**request["make"])
        return episode.step(request["step"])
    except BaseException as error:  # noqa: BLE001 - foreign code may raise anything
        traceback.print_exc()
        told = " ".join(f"{type(error).__name__}: {error}".split())
        return {"error": told[:300], "misfit": "make" in request}


def process_control(what: int, value: int) -> None:
    with suppress(
        OSError, AttributeError
    ):  # on other systems than Linux, the connection's end is heard
        ctypes.CDLL(None).prctl(what, value)


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
    path, program, memory_mb = sys.argv[1:]
    process_control(PR_SET_PDEATHSIG, signal.SIGKILL)
    process_control(PR_SET_CHILD_SUBREAPER, 1)
    ready = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)  # games print
    module = imported(program)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(BACKLOG)
        os.write(ready, b"ready\n")
        os.close(ready)
        ForkServer(listener, module, int(memory_mb)).serve()


if __name__ == "__main__":
    main()
