"""Declares queues and streams, and waits until each would survive a crash of the server.

Invariants:
- What is new at the server is ready at the age of `durable_after_s`: RabbitMQ 3.10, killed before it has written
  down the name of a queue or stream, forgets it with all that it confirmed for it.
- That holds for the whole client: whoever declares what another part of it has just made, or publishes to
  it, waits for the rest of that time.
- A queue whose making was cut short is made anew: RabbitMQ 3.10 makes a quorum queue first and tells
  it of its arguments then, and killed in between keeps one that never expires, nor its messages.
  What a server that lives was too slow for stays, so that the next attempt gets further.
- One that dead-letters is deleted only when it has had a leader for `CALM_S`: on RabbitMQ 3.10 it takes
  the dead-lettering of the whole node with it if it goes in the moment in which it gets one.
- However many are wanted at once, `AT_ONCE` channels are used for it, and none is held while waiting: a
  connection that is asked for more than 2,047 breaks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from aio_pika.abc import AbstractChannel

from warren_broker.errors import BrokerUnavailable
from warren_broker.rabbitmq.connection.connection import CALL_S, Link
from warren_broker.rabbitmq.entities.broken_queues import Condition, ask
from warren_broker.rabbitmq.entities.declare_calls import Declare, declare, look
from warren_broker.rabbitmq.entities.entities import Entity, QueueEntity

AT_ONCE = 32
CALM_S = 2.0
DEAD_LETTERS = "x-dead-letter-exchange"


class DurableDeclarer:
    """Of one client; `declare_one` is how it declares each."""

    def __init__(self, durable_after_s: float, *, declare_one: Declare = declare) -> None:
        self.declare_one = declare_one
        self._durable_after_s = durable_after_s
        self._ready_s: dict[str, float] = {}
        """When what was made here just now is ready, on the event loop's clock."""
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def declare_durably(
        self, link: Link, entities: Sequence[Entity], *, timeout_s: float = CALL_S
    ) -> None:
        """Declare entities; return when all are ready.

        Raises `BrokerError` for one that is there with other arguments, and `BrokerUnavailable`.
        """
        making = _Making(link, entities, self)
        names = [entity.name for entity in entities]
        while True:
            await self._call(link, making.make, timeout_s)
            if self._wait_s(names) <= 0.0:
                return
            await self.until_ready(*names)
            await self._call(link, making.find, timeout_s)
            if making.is_at_same_server:
                return

    async def until_ready(self, *names: str) -> None:
        """Wait for those that this client has just made."""
        while True:
            wait_s = self._wait_s(names)
            if wait_s <= 0.0:
                return
            await asyncio.sleep(wait_s)

    async def missing(self, link: Link, entities: Sequence[Entity]) -> list[str]:
        """The queues and streams among them that are not at the server, where that matters."""
        if not self._durable_after_s:
            return []
        queues = [entity.name for entity in entities if isinstance(entity, QueueEntity)]
        return [name for name in queues if await look(link, name) is None]

    def note(self, made: Collection[str]) -> None:
        """These are new at the server from now on."""
        now_s = asyncio.get_running_loop().time()
        young = {name: at_s for name, at_s in self._ready_s.items() if at_s > now_s}
        self._ready_s = young | dict.fromkeys(made, now_s + self._durable_after_s)

    async def _call(
        self, link: Link, operation: Callable[[AbstractChannel], Awaitable[None]], timeout_s: float
    ) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._gate.acquire()
        except TimeoutError as error:
            raise BrokerUnavailable(
                f"nothing was declared in {timeout_s:g} s: others came before"
            ) from error
        try:
            await link.call(operation, timeout_s=timeout_s)
        finally:
            self._gate.release()

    def _wait_s(self, names: Sequence[str]) -> float:
        ready_s = [self._ready_s[name] for name in names if name in self._ready_s]
        return max(ready_s) - asyncio.get_running_loop().time() if ready_s else 0.0


class _Making:
    """Of some entities, as often as it takes."""

    def __init__(self, link: Link, entities: Sequence[Entity], declarer: DurableDeclarer) -> None:
        self._link = link
        self._entities = entities
        self._declarer = declarer
        self._n_connections = link.n_connections
        self._begun: set[str] = set()

    @property
    def is_at_same_server(self) -> bool:
        """Whether the server that answered last is the one at which they were made."""
        return self._link.n_connections == self._n_connections

    async def make(self, channel: AbstractChannel) -> None:
        if not self.is_at_same_server:
            cut_short = [entity for entity in self._entities if entity.name in self._begun]
            await asyncio.gather(*(_clear_away(self._link, entity) for entity in cut_short))
            self._n_connections = self._link.n_connections
        self._begun.update(await self._declarer.missing(self._link, self._entities))
        self._declarer.note(self._begun)
        for entity in self._entities:
            await self._declarer.declare_one(channel, entity)
        self._declarer.note(self._begun)

    async def find(self, channel: AbstractChannel) -> None:
        await self._declarer.declare_one(channel, self._entities[-1])


async def _clear_away(link: Link, entity: Entity) -> None:
    """Delete a queue that was half made when the server was lost, unless it is of use already."""
    found = await look(link, entity.name)
    if found is None or found.message_count or found.consumer_count:
        return
    if DEAD_LETTERS in entity.arguments and await ask(link, entity.name) is Condition.WHOLE:
        await asyncio.sleep(CALM_S)
    async with link.channel() as channel:
        frames = await channel.get_underlay_channel()
        await frames.queue_delete(entity.name)
