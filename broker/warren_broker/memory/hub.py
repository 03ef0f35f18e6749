"""The hub: what the clients of one process share.

Invariant: a queue or stream belongs to the hub, a consumer to a client; a client that closes takes
nothing with it.
"""

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from warren_broker.memory.client import MemoryBroker
from warren_broker.memory.queues import Queues
from warren_broker.memory.streams import Streams, open_streams
from warren_broker.memory.topics import Topics


class MemoryHub:
    """All queues, streams and topics of this process. Made by `open_hub`."""

    def __init__(self, streams: Streams) -> None:
        self.queues = Queues()
        self._streams = streams
        self._topics = Topics()
        self._clients: dict[MemoryBroker, None] = {}

    def client(self, name: str) -> MemoryBroker:
        """A broker of its own for one part of the system; close it when the part stops."""
        client = MemoryBroker(
            name, self.queues, self._streams, self._topics, on_closed=self._closed
        )
        self._clients[client] = None
        return client

    def _closed(self, client: MemoryBroker) -> None:
        self._clients.pop(client, None)

    def close(self) -> None:
        for client in list(self._clients):
            client.hand_back()
        self.queues.close()


@asynccontextmanager
async def open_hub(data_dir: Path | None = None) -> AsyncGenerator[MemoryHub]:
    """The in-process broker for several parts; its streams lie in `data_dir`.

    Without a folder they lie in a temporary one and end with the hub. Raises `BrokerUnavailable`
    when the folder can't be used or another process uses it.
    """
    with contextlib.ExitStack() as stack:
        folder = data_dir or Path(stack.enter_context(TemporaryDirectory(prefix="warren-")))
        async with open_streams(folder) as streams:
            hub = MemoryHub(streams)
            try:
                yield hub
            finally:
                hub.close()


@asynccontextmanager
async def open_memory(
    data_dir: Path | None = None, *, name: str = "warren"
) -> AsyncGenerator[MemoryBroker]:
    """The in-process broker for one part alone."""
    async with open_hub(data_dir) as hub:
        yield hub.client(name)
