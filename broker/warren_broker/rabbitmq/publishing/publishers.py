"""One publisher for each queue and stream, and one for all exchanges.

Invariant: no destination shares its channel. A queue that has lost its leader stops the channel that
publishes to it for as long as that lasts, and a stream on RabbitMQ 3.10 can lose confirmed messages
where it shares one. A server grants some two thousand channels, so the destinations that were not
used for longest give theirs back.
"""

import asyncio
from collections import OrderedDict

from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.publishing.publisher import Publisher

MAX_CHANNELS = 256


class Publishers:
    def __init__(self, link: Link) -> None:
        self._link = link
        self.for_exchanges = Publisher(link)
        self._by_destination: OrderedDict[str, Publisher] = OrderedDict()
        self._retired: set[asyncio.Task[None]] = set()

    def to(self, name: str) -> Publisher:
        """The publisher to a queue or stream, by its name at the server."""
        publisher = self._by_destination.get(name)
        if publisher is None:
            publisher = Publisher(self._link)
            self._by_destination[name] = publisher
            self._retire_one()
        self._by_destination.move_to_end(name)
        return publisher

    def retire_publisher(self, name: str) -> None:
        """The queue or stream was deleted."""
        publisher = self._by_destination.pop(name, None)
        if publisher is not None:
            self._retire(publisher)

    async def close(self) -> None:
        publishers = [self.for_exchanges, *self._by_destination.values()]
        await asyncio.gather(*(publisher.close() for publisher in publishers), *self._retired)

    def _retire_one(self) -> None:
        if len(self._by_destination) <= MAX_CHANNELS:
            return
        idle = (name for name, p in self._by_destination.items() if not p.n_under_way)
        name = next(idle, None)
        if name is not None:
            self.retire_publisher(name)

    def _retire(self, publisher: Publisher) -> None:
        task = asyncio.create_task(publisher.close(), name="retire a publisher")
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)
