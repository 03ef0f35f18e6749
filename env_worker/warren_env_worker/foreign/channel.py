"""The channel of a fork server: a pair of sockets over which it is handed one end of each connection.

Invariants: nothing of it lies on a disk, so that whoever is killed leaves nothing behind. When the owner's end is closed,
or its process ends, the fork server reads the end.
"""

import asyncio
import socket
from contextlib import suppress


class Channel:
    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        """`theirs` is standard input of the fork server, and of nobody else: to be closed here once that is started."""
        self._ours.setblocking(False)
        self._sending = asyncio.Lock()

    async def connection(self) -> socket.socket:
        """Its other end is on its way. Raises `ConnectionError` where nobody takes it any more, and another `OSError`
        where this process can't connect."""
        ours, its = socket.socketpair()
        with its:
            try:
                await self._hand_over(its)
            except BaseException:
                ours.close()
                raise
        return ours

    async def _hand_over(self, connection: socket.socket) -> None:
        async with self._sending:
            while True:
                with suppress(BlockingIOError):
                    socket.send_fds(self._ours, [b"+"], [connection.fileno()])
                    return
                await self._writable()

    async def _writable(self) -> None:
        """Hundreds are on their way already."""
        loop, writable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._ours, writable.set)
        try:
            await writable.wait()
        finally:
            loop.remove_writer(self._ours)

    def close(self) -> None:
        self._ours.close()
        self.theirs.close()
