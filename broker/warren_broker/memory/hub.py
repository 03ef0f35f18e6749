"""The hub: what the clients of one process share.

Invariant: a queue or stream belongs to the hub, a consumer to a client; a client that closes takes
nothing with it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from warren_broker.errors import BrokerUnavailable, Unroutable
from warren_broker.memory.client import MemoryBroker
from warren_broker.memory.streams import Streams, open_streams
from warren_broker.memory.topics import Topics
from warren_broker.memory.work_queue import HomeQueue, Message, Queue
from warren_broker.port import MAX_REASON_CHARS, DeadLetter
from warren_broker.topology import DEAD, Home, WorkQueue

log = logging.getLogger(__name__)


class MemoryHub:
    """All queues, streams and topics of this process. Made by `open_hub`."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.topics = Topics()
        self._queues: dict[str, Queue] = {}
        self._clients: dict[MemoryBroker, None] = {}
        self.declare(DEAD)

    def client(self, name: str) -> MemoryBroker:
        """A broker of its own for one part of the system; close it when the part stops."""
        client = MemoryBroker(self, name)
        self._clients[client] = None
        return client

    def part(self, client: MemoryBroker) -> None:
        self._clients.pop(client, None)

    def declare(self, address: WorkQueue | Home) -> Queue:
        if (queue := self._queues.get(address.name)) is None:
            queue = self._queues[address.name] = self._create(address)
        return queue

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def delete(self, name: str) -> None:
        if (queue := self._queues.pop(name, None)) is not None:
            queue.delete()

    def offer(self, name: str, message: Message) -> asyncio.Future[None] | None:
        """Put a message into a queue; a future when it must wait. Raises `Unroutable`."""
        if (queue := self._queues.get(name)) is None:
            raise Unroutable(f"nobody is behind {name}")
        return queue.offer(message)

    def give_up(self, message: Message, origin: str, reason: str) -> None:
        """Move a message to `dead`."""
        message.origin = origin
        message.reason = reason[:MAX_REASON_CHARS]
        log.warning("message %s of %s goes to dead: %s", message.id, origin, message.reason)
        message.n_deliveries = 0
        dead = self.declare(DEAD)
        if len(dead.ready) >= dead.max_messages:
            dropped = dead.drop_oldest()
            log.error("dead is full: dropped %s of %s", dropped.id, dropped.origin)
        dead.put(message)

    def dead_letters(self, limit: int) -> list[DeadLetter]:
        letters = islice(self.declare(DEAD).ready, limit)
        return [_letter(message) for message in letters]

    def requeue(self, letter_id: str) -> bool:
        if (letter := self._find_dead(letter_id)) is None:
            return False
        if (origin := self._queues.get(letter.origin)) is None:
            raise Unroutable(f"{letter_id} came from {letter.origin}, which is gone")
        if len(origin.ready) >= origin.max_messages:
            raise BrokerUnavailable(f"{letter_id} can't go to {letter.origin}: the queue is full")
        self.declare(DEAD).remove(letter)
        letter.origin = letter.reason = ""
        letter.n_requeued += 1
        origin.put(letter)
        return True

    def drop(self, letter_id: str) -> bool:
        if (letter := self._find_dead(letter_id)) is None:
            return False
        self.declare(DEAD).remove(letter)
        return True

    def _find_dead(self, letter_id: str) -> Message | None:
        return next((m for m in self.declare(DEAD).ready if m.id == letter_id), None)

    def close(self) -> None:
        for client in list(self._clients):
            client.leave()
        for queue in self._queues.values():
            queue.delete()

    def _create(self, address: WorkQueue | Home) -> Queue:
        if isinstance(address, WorkQueue):
            return Queue(address.name, address.max_messages, self.give_up)
        self.declare(address.fallback)
        return HomeQueue(address, self.give_up, fall_back=self._fall_back)

    def _fall_back(self, home: HomeQueue) -> None:
        self._queues.pop(home.name)
        fallback = self.declare(home.address.fallback)
        n_moved = 0
        for message in home.drain():
            fallback.put(message)
            n_moved += 1
        log.info("%s is gone: %d messages moved to %s", home.name, n_moved, fallback.name)


def _letter(message: Message) -> DeadLetter:
    return DeadLetter(
        id=message.id,
        origin=message.origin,
        reason=message.reason,
        first_seen_s=message.published_s,
        body=message.body,
        n_failures=message.n_requeued + 1,
    )


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
