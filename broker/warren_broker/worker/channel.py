"""A child process's end of the connection with its supervisor, whose end is `child`.

A frame is a u32 little-endian length and that many bytes; what they mean is up to the two ends.
"""

import json
import os
import signal
import socket
import struct
import threading
from collections.abc import Sequence

from warren_broker.worker.parent import inherited_socket

LENGTH = struct.Struct("<I")


class Channel:
    """Blocking, for one thread that receives; any may send."""

    def __init__(self, connection: socket.socket, arguments: Sequence[str] = ()) -> None:
        self.arguments = arguments
        """What the supervisor gave `Child.spawn`."""
        self._socket = connection
        self._file = connection.makefile("rb")
        self._speaking = threading.Lock()

    @classmethod
    def inherited(cls) -> "Channel":
        """The channel to the supervisor that spawned this process; die when it dies, or has hung up."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
        connection = inherited_socket()
        (n_bytes,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
        return cls(connection, json.loads(_exactly(connection, n_bytes)))

    def receive(self) -> bytes | None:
        """The next frame; None when the supervisor has closed the connection."""
        head = self._file.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return None
        (n_bytes,) = LENGTH.unpack(head)
        body = self._file.read(n_bytes)
        return body if len(body) == n_bytes else None

    def send(self, frame: bytes) -> None:
        with self._speaking:
            self._socket.sendall(LENGTH.pack(len(frame)) + frame)

    def detach(self) -> socket.socket:
        """The bare socket, for a loop of one's own; only before anything was received.

        The caller's to close, which ends it in this process.
        """
        self._file.close()
        return self._socket

    def close(self) -> None:
        """Let go of it, in a process that was forked and is not the one to talk."""
        self._file.close()
        self._socket.close()


def _exactly(connection: socket.socket, n_bytes: int) -> bytes:
    """Nothing beyond is read ahead, so that the channel can be detached."""
    received = connection.recv(n_bytes, socket.MSG_WAITALL)
    if len(received) < n_bytes:
        os._exit(1)
    return received
