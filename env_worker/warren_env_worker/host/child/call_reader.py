"""Calls as they come in over a socket, for a loop that must not wait for the rest of a frame."""

import socket

from warren_env_worker.host.protocol import Call, unpack

_READ_BYTES = 64 * 1024
"""At once; much more would be mapped and unmapped each time."""


class CallReader:
    def __init__(self, talk: socket.socket) -> None:
        self._talk = talk
        self._received = bytearray()

    def calls(self) -> list[Call] | None:
        """All that is complete; None when the other side has gone. Call it when there is news."""
        received = self._talk.recv(_READ_BYTES)
        if not received:
            return None
        self._received += received
        calls: list[Call] = []
        while len(self._received) >= 4:
            n_bytes = int.from_bytes(self._received[:4], "little")
            if len(self._received) < 4 + n_bytes:
                break
            calls += unpack(bytes(self._received[4 : 4 + n_bytes]))
            del self._received[: 4 + n_bytes]
        return calls
