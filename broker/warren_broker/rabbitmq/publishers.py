"""One publisher for all queues and topics, and one for each stream.

Invariant: a stream never shares its channel (RabbitMQ 3.10 can lose confirmed messages then). A
server grants some two thousand channels, so the streams that were not used for longest give theirs
back.
"""

import asyncio
from collections import OrderedDict

from warren_broker.rabbitmq.connection import Link
from warren_broker.rabbitmq.publisher import Publisher

MAX_STREAM_CHANNELS = 256


class Publishers:
    def __init__(self, link: Link, *, confirm_s: float) -> None:
        self._link = link
        self._confirm_s = confirm_s
        self.for_queues = Publisher(link, confirm_s=confirm_s)
        self._for_streams: OrderedDict[str, Publisher] = OrderedDict()
        self._retired: set[asyncio.Task[None]] = set()

    def for_stream(self, name: str) -> Publisher:
        publisher = self._for_streams.get(name)
        if publisher is None:
            publisher = self._for_streams[name] = Publisher(self._link, confirm_s=self._confirm_s)
            self._retire_one()
        self._for_streams.move_to_end(name)
        return publisher

    def forget(self, name: str) -> None:
        """The stream was deleted."""
        publisher = self._for_streams.pop(name, None)
        if publisher is not None:
            self._retire(publisher)

    async def close(self) -> None:
        publishers = [self.for_queues, *self._for_streams.values()]
        await asyncio.gather(*(publisher.close() for publisher in publishers), *self._retired)

    def _retire_one(self) -> None:
        if len(self._for_streams) <= MAX_STREAM_CHANNELS:
            return
        idle = (name for name, p in self._for_streams.items() if not p.n_under_way)
        name = next(idle, None)
        if name is not None:
            self.forget(name)

    def _retire(self, publisher: Publisher) -> None:
        task = asyncio.create_task(publisher.close(), name="retire a publisher")
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)
