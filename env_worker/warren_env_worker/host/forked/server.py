"""The fork server, as an episode's process sees it."""

import socket

from warren_env_worker.host.child.call_reader import CallReader
from warren_env_worker.host.protocol import Call


class Server:
    def __init__(self, talk: socket.socket) -> None:
        self._talk = talk
        self._call_reader = CallReader(talk)

    def calls(self) -> list[Call] | None:
        """The next ones; none if only a part has come, None when the server has hung up."""
        return self._call_reader.calls()

    def send(self, *frames: bytes) -> None:
        self._talk.sendall(b"".join(len(f).to_bytes(4, "little") + f for f in frames))
