"""How an episode's process gets connections: by a socket that it has inherited, over which it hands one end of a pair.

No path and no port: who has not inherited the socket can't ask, neither a program that an episode runs nor what a
sandbox holds. Invariant: the socket is kept from programs that are executed.
"""

import os
import socket


class Front:
    """Of this process: set once, before anything is forked."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def inherit(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)

    def connect(self) -> socket.socket:
        """Raises `OSError` where nobody answers."""
        if self._socket is None:
            raise ConnectionRefusedError("this process was given no env worker to ask")
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._socket, [b"c"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise
        return ours


front = Front()
