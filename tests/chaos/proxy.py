"""A TCP proxy whose connections can be cut and held up.

One stands between each process and each server, so that a fault hits one link alone. With several
upstreams it is the one address of replicas: it asks whoever answers.
"""

import asyncio
import contextlib
from collections.abc import Sequence

CHUNK_BYTES = 65_536


class Proxy:
    def __init__(self, *upstream_ports: int) -> None:
        self.upstream_ports: Sequence[int] = upstream_ports
        self.port = 0
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._abandoned: list[asyncio.Event] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """End every connection at once, without a close frame."""
        for link in self._links:
            link.transport.abort()

    def stall(self) -> None:
        """Connections stay open, and nothing comes through."""
        self._flows.clear()

    def abandon(self) -> None:
        """Connections of now stay open, and nothing comes through them; those that come are served."""
        self._flows.clear()
        self._abandoned.append(self._flows)
        self._flows = asyncio.Event()
        self._flows.set()

    def flow(self) -> None:
        for flows in (self._flows, *self._abandoned):
            flows.set()

    async def close(self) -> None:
        self.flow()
        if self._server is not None:
            self._server.close()
        self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await self._connected()
        if upstream is None:
            writer.transport.abort()
            return
        far_reader, far_writer = upstream
        links, flows = {writer, far_writer}, self._flows
        self._links |= links
        try:
            pumps = [
                asyncio.create_task(self._pump(reader, far_writer, flows)),
                asyncio.create_task(self._pump(far_reader, writer, flows)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            self._links -= links
            for link in links:
                link.transport.abort()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for port in self.upstream_ports:
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        return None

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await flows.wait()
                writer.write(data)
                await writer.drain()
            await writer.drain()
