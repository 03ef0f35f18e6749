"""The channel of a fork server: a pair of sockets over which it is handed one end of each connection.

Invariants: nothing of it lies on a disk, so that whoever is killed leaves nothing behind. When the owner's end is closed,
or its process ends, the fork server reads the end. Whoever waits to hand something over hears that the channel was closed.
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
        self._writable = asyncio.Event()

    async def connection(self) -> socket.socket:
        """Its other end is on its way. Raises `ConnectionError` where nobody takes it any more or the channel is closed, and
        another `OSError` where this process can't connect."""
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
            while not self._is_closed:
                with suppress(BlockingIOError):
                    socket.send_fds(self._ours, [b"+"], [connection.fileno()])
                    return
                await self._wait()
        raise ConnectionError("its fork server is gone")

    async def _wait(self) -> None:
        """Hundreds are on their way already."""
        loop = asyncio.get_running_loop()
        self._writable.clear()
        loop.add_writer(self._ours, self._writable.set)
        try:
            await self._writable.wait()
        finally:
            if not self._is_closed:
                loop.remove_writer(self._ours)

    @property
    def _is_closed(self) -> bool:
        return self._ours.fileno() < 0

    def close(self) -> None:
        if not self._is_closed:
            asyncio.get_running_loop().remove_writer(self._ours)
        self._ours.close()
        self.theirs.close()
        self._writable.set()
