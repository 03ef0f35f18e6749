"""The supervisor's end of the socket to a child, on the event loop."""

import asyncio
import contextlib
import socket

_READ_AHEAD_BYTES = 1024 * 1024
_WRITE_HIGH_WATER_BYTES = 4 * 1024 * 1024


async def opened(ours: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_READ_AHEAD_BYTES, loop=loop)
    transport, protocol = await loop.create_connection(lambda: _Protocol(ours, reader), sock=ours)
    transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER_BYTES)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class _Protocol(asyncio.StreamReaderProtocol):
    """However a connection ends, what was said before can still be read."""

    def __init__(self, ours: socket.socket, reader: asyncio.StreamReader) -> None:
        super().__init__(reader, loop=asyncio.get_running_loop())
        self._ours = ours
        self._heard = reader

    def connection_lost(self, exc: Exception | None) -> None:
        self._hear_the_rest()
        super().connection_lost(None)  # with an error, the reader would forget what it holds

    def _hear_the_rest(self) -> None:
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RD)  # nobody can add to what lies there
            while said := self._ours.recv(_READ_AHEAD_BYTES):
                self._heard.feed_data(said)
