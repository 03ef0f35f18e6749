"""Calls as they come in over a socket, for a loop that must not wait for the rest of a frame.

Invariant: values of secrets are received into memory that no forked process gets, and nowhere else.
"""

import socket

from warren_env_worker.host.protocol import HEAD, Call, unpacked
from warren_env_worker.permissions.sealed import memory_apart


class CallReader:
    def __init__(self, talk: socket.socket) -> None:
        self._talk = talk
        self._begin()

    def _begin(self) -> None:
        """A frame comes in three parts, each of a known size."""
        self._head = bytearray(HEAD.size)
        self._json = bytearray()
        self._values = memoryview(b"")
        self._part = memoryview(self._head)
        """What is not filled yet, of the one that is being received."""
        self._is_last = False

    def calls(self) -> list[Call] | None:
        """Of one frame, if it is complete; None when the other side has gone. Call it when there is
        news, or to wait for some."""
        flags = 0
        while self._part:
            try:
                n_bytes = self._talk.recv_into(self._part, 0, flags)
            except BlockingIOError:
                return []
            if not n_bytes:
                return None
            flags = socket.MSG_DONTWAIT
            self._part = self._part[n_bytes:]
            if not self._part:
                self._go_on()
        calls = unpacked(self._json, self._values)
        self._begin()
        return calls

    def _go_on(self) -> None:
        """To the part after the one that is full; there is none when nothing is left to receive."""
        if not self._json:
            n_bytes, n_json = HEAD.unpack(self._head)
            self._json = bytearray(n_json)
            n_values = n_bytes - 4 - n_json
            self._values = memoryview(memory_apart(n_values) if n_values else b"")
            self._part = memoryview(self._json)
        elif self._values and not self._is_last:
            self._is_last = True
            self._part = self._values
