"""A place where brokers under test meet: several clients, names that no other test uses."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import TypeVar

from tests.support.patience import PATIENCE_S, QUIET_S

from warren_broker.port import Broker, Consumer, DeadLetter, Delivery
from warren_broker.topology import MAX_MESSAGES, Address, Home, Stream, Topic, WorkQueue

AddressT = TypeVar("AddressT", WorkQueue, Home, Stream, Topic)
Opener = Callable[[str], AbstractAsyncContextManager[Broker]]


@dataclass
class Place:
    """One broker, in process or a server, and our clients of it."""

    kind: str
    open_client: Opener
    stack: AsyncExitStack
    prefix: str = field(default_factory=lambda: f"t{secrets.token_hex(4)}")
    used: list[Address] = field(default_factory=list[Address])

    async def client(self, name: str = "test") -> Broker:
        return await self.stack.enter_async_context(self.open_client(name))

    def queue(
        self,
        name: str = "work",
        *,
        max_messages: int = MAX_MESSAGES,
        expires_s: float | None = None,
    ) -> WorkQueue:
        return self._noted(WorkQueue(f"{self.prefix}.{name}", max_messages, expires_s))

    def home(self, fallback: WorkQueue, name: str = "home", *, grace_s: float = 0.5) -> Home:
        """It is forgotten soon enough for a test."""
        name = f"{self.prefix}.{name}"
        return self._noted(Home(name, fallback, grace_s, expires_s=10 * grace_s))

    def stream(self, name: str = "log") -> Stream:
        return self._noted(Stream(f"{self.prefix}.{name}"))

    def topic(self, name: str = "news") -> Topic:
        return self._noted(Topic(f"{self.prefix}.{name}"))

    def _noted(self, address: AddressT) -> AddressT:
        self.used.append(address)
        return address


async def publish_bodies(broker: Broker, queue: WorkQueue, *bodies: bytes) -> None:
    """One message for each body; its id says which."""
    for body in bodies:
        await broker.publish(queue, body, message_id=f"id-{body[:20].decode()}")


async def take(consumer: Consumer) -> Delivery:
    """The next delivery, which must come."""
    return await asyncio.wait_for(anext(aiter(consumer)), PATIENCE_S)


async def take_many(consumer: Consumer, n: int) -> list[Delivery]:
    return [await take(consumer) for _ in range(n)]


async def assert_quiet(consumer: Consumer) -> None:
    """Nothing comes."""
    try:
        delivery = await asyncio.wait_for(anext(aiter(consumer)), QUIET_S)
    except TimeoutError:
        return
    raise AssertionError(f"unexpected delivery {delivery.body[:80]!r}")


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return when it holds; for what no event tells, such as the depth of a queue."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)


async def depth_is(broker: Broker, queue: WorkQueue | Home, n: int) -> None:
    async def reached() -> bool:
        return await broker.depth(queue) == n

    await eventually(reached)


async def letters_of(broker: Broker, queue: WorkQueue, n: int) -> list[DeadLetter]:
    """The dead letters that came from this queue, once there are `n`."""

    async def found() -> list[DeadLetter]:
        letters = await broker.dead_letters(limit=10_000)
        return [letter for letter in letters if letter.origin == queue.name]

    async def enough() -> bool:
        return len(await found()) >= n

    await eventually(enough)
    return await found()


async def read_all(broker: Broker, stream: Stream, n: int) -> list[tuple[int | None, int]]:
    """(offset, number) of the first `n` messages that are left."""
    found: list[tuple[int | None, int]] = []
    async with broker.read(stream, start="first") as reader:
        while len(found) < n:
            delivery = await take(reader)
            found.append((delivery.offset, int(delivery.body.split()[0])))
            await delivery.ack()
    return found
