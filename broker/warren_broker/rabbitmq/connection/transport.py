"""Connections whose socket we keep hold of, and whose frames always find a place in the queue.

aiormq hides the socket, and two things need it: keepalive probes, by which the kernel finds a peer
that vanished without a word even while our event loop is busy, and giving up at once on a peer that
takes nothing any more.

It also keeps ten frames at most waiting for the socket, and where there is no place drops its answer
to a server that closes a channel. The server then takes the next channel of that number for a breach
of the protocol and hangs up, so that looking for a queue that is not there could cost a busy client
its connection.
"""

import asyncio
import socket
from typing import Any

from aio_pika import Connection
from aiormq.connection import Connection as RawConnection
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from yarl import URL

KEEPALIVE_IDLE_S = 20
KEEPALIVE_INTERVAL_S = 10
KEEPALIVE_PROBES = 3

# No limit of its own is needed: publishers wait for their confirms, and there are no more acks than
# messages in our hands.
RawConnection.FRAME_BUFFER_SIZE = 0


class HeldTransport(TransportFactory):
    """Opens the connection like aiormq does, and remembers it."""

    def __init__(self, *, is_tls: bool) -> None:
        self._inner = TLSTransportFactory() if is_tls else TCPTransportFactory()
        self._writer: asyncio.StreamWriter | None = None

    async def create(
        self, url: URL, **kwargs: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, self._writer = await self._inner.create(url, **kwargs)
        _probe_peer(self._writer)
        return reader, self._writer

    def abort(self) -> None:
        """Drop the connection without closing it."""
        if self._writer is not None:
            self._writer.transport.abort()


class HeldConnection(Connection):
    def __init__(self, url: URL) -> None:
        super().__init__(url)
        self.held = HeldTransport(is_tls=url.scheme == "amqps")
        self.kwargs["transport_factory"] = self.held


def _probe_peer(writer: asyncio.StreamWriter) -> None:
    inner: socket.socket = writer.get_extra_info("socket")
    with socket.fromfd(inner.fileno(), inner.family, inner.type) as probed:
        probed.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        probed.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        probed.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        probed.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
