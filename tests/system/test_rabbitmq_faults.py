"""The port's promises while the server is killed, restarted and stopped in the middle of traffic.

Every fault meets running publishers, consumers, a stream reader and a listener. Whatever was
confirmed arrives, the reader sees each offset once and in order, and nobody sees an exception.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aio_pika
import pytest
from tests.support.patience import PATIENCE_S, STOP_S, several_waits
from tests.support.private_rabbit import PrivateRabbit

from warren_broker.errors import BrokerClosed, BrokerUnavailable
from warren_broker.port import Broker, Consumer, Delivery
from warren_broker.rabbitmq import Timings, open_rabbitmq
from warren_broker.rabbitmq.entities.declare_calls import declare
from warren_broker.rabbitmq.entities.entities import Entities
from warren_broker.topology import Home, Stream, Topic, WorkQueue

pytestmark = several_waits

HEARTBEAT_S = 4
CONFIRM_S = 2.0
PAUSE_S = 7.0
"""Long enough for confirms to time out and the connection to be given up."""
N_MOST = 1000
"""Of so many messages those that were under way as the server was lost are few."""
QUEUE = WorkQueue("work")
HOME = Home("home", WorkQueue("fallback"), grace_s=1.0)
STREAM = Stream("log")
TOPIC = Topic("news")

Fault = Callable[[PrivateRabbit], Awaitable[None]]


@pytest.fixture
def node(doomed_rabbit: PrivateRabbit) -> Generator[PrivateRabbit]:
    """A node, up again whatever the test did to it."""
    yield doomed_rabbit
    if doomed_rabbit.is_running:
        doomed_rabbit.resume()
    else:
        doomed_rabbit.start()


def connect(node: PrivateRabbit, prefix: str | None = None) -> AbstractAsyncContextManager[Broker]:
    return open_rabbitmq(
        node.url,
        prefix=prefix or f"{secrets.token_hex(4)}.",
        heartbeat_s=HEARTBEAT_S,
        timings=Timings(confirm_s=CONFIRM_S),
        open_s=PATIENCE_S,
    )


async def boot(node: PrivateRabbit) -> None:
    node.spawn()
    await asyncio.to_thread(node.wait_until_ready)


async def killed(node: PrivateRabbit) -> None:
    node.kill()
    await boot(node)


async def restarted(node: PrivateRabbit) -> None:
    await asyncio.to_thread(node.stop)
    await boot(node)


async def paused(node: PrivateRabbit) -> None:
    node.pause()
    await asyncio.sleep(PAUSE_S)  # the fault itself
    node.resume()


async def first(consumer: Consumer) -> Delivery:
    return await anext(aiter(consumer))


class Traffic:
    """Publishers that never stop, and what became of their messages."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.n_confirmed: dict[WorkQueue | Stream, int] = {QUEUE: 0, STREAM: 0}
        self.received: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.missing: dict[WorkQueue | Stream, set[str]] = {QUEUE: set(), STREAM: set()}
        """Confirmed and not yet seen by a consumer; asked for at every message, so kept up to date."""
        self.offsets: list[int] = []
        self.events: set[str] = set()
        self.is_stopping = False
        self._moved = asyncio.Condition()

    async def publish(self, address: WorkQueue | Stream, name: str) -> None:
        n = 0
        while not self.is_stopping:
            message_id = f"{name}-{n}"
            await self.broker.publish(
                address, b"x" * 200, message_id=message_id, timeout_s=PATIENCE_S
            )
            self.n_confirmed[address] += 1
            if not (self.received if address is QUEUE else self.read)[message_id]:
                self.missing[address].add(message_id)
            await self._tell()
            n += 1

    async def announce(self) -> None:
        n = 0
        while not self.is_stopping:
            await self.broker.publish(TOPIC, b"%d" % n, message_id=str(n), timeout_s=PATIENCE_S)
            n += 1
            await asyncio.sleep(0.05)

    async def consume(self) -> None:
        async with self.broker.consume(QUEUE, prefetch=20) as consumer:
            async for delivery in consumer:
                self.received[delivery.message_id] += 1
                self.missing[QUEUE].discard(delivery.message_id)
                await delivery.ack()
                await self._tell()

    async def follow(self) -> None:
        async with self.broker.read(STREAM, start="first", prefetch=50) as reader:
            async for delivery in reader:
                assert delivery.offset is not None
                self.offsets.append(delivery.offset)
                self.read[delivery.message_id] += 1
                self.missing[STREAM].discard(delivery.message_id)
                await delivery.ack()
                await self._tell()

    async def listen(self) -> None:
        async with self.broker.subscribe(TOPIC) as subscriber:
            async for event in subscriber:
                self.events.add(event.message_id)
                await self._tell()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._moved:
            await self._moved.wait_for(condition)

    async def flows(self) -> None:
        """Return when every part of the traffic has moved on."""
        before = self._counts()
        await self.until(
            lambda: all(now > then + 20 for now, then in zip(self._counts(), before, strict=True))
        )

    def _counts(self) -> list[int]:
        return [*self.n_confirmed.values(), len(self.received), len(self.read), len(self.events)]

    async def _tell(self) -> None:
        async with self._moved:
            self._moved.notify_all()


@asynccontextmanager
async def traffic(broker: Broker) -> AsyncGenerator[Traffic]:
    """Traffic that has begun; any exception in it fails the test."""
    flow = Traffic(broker)
    await broker.declare(QUEUE, STREAM, TOPIC)
    async with asyncio.TaskGroup() as group:
        takers = [group.create_task(work()) for work in (flow.consume, flow.follow, flow.listen)]
        for i in range(4):
            group.create_task(flow.publish(QUEUE, f"queue-{i}"))
            group.create_task(flow.publish(STREAM, f"stream-{i}"))
        group.create_task(flow.announce())
        await flow.flows()
        yield flow
        flow.is_stopping = True
        await flow.until(lambda: not flow.missing[QUEUE])
        await flow.until(lambda: not flow.missing[STREAM])
        for taker in takers:
            taker.cancel()


@pytest.mark.parametrize("fault", [killed, restarted, paused], ids=lambda fault: fault.__name__)
async def test_traffic_survives(
    node: PrivateRabbit, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with connect(node) as broker, traffic(broker) as flow:
        await fault(node)
        await flow.flows()
        await flow.until(lambda: len(flow.received) > N_MOST)
    assert flow.offsets == list(range(len(flow.offsets)))
    n_twins = sum(n - 1 for n in flow.received.values())
    assert n_twins < len(flow.received) / 10
    errors = [record for record in caplog.records if record.exc_info]
    assert not errors, "\n".join(map(caplog.handler.format, errors))


async def test_a_home_falls_back_although_the_server_was_killed(node: PrivateRabbit) -> None:
    """Read, unread and new messages of a worker that dies together with the server."""
    async with connect(node) as broker:
        async with broker.consume(HOME, prefetch=1) as consumer:
            for i in range(5):
                await broker.publish(HOME, b"step", message_id=str(i))
            await first(consumer)
            node.kill()
        await boot(node)
        seen: set[str] = set()
        async with (
            asyncio.timeout(PATIENCE_S),
            broker.consume(HOME.fallback, prefetch=9) as consumer,
        ):
            while len(seen) < 5:
                seen.add((await first(consumer)).message_id)
        assert seen == {str(i) for i in range(5)}


@pytest.mark.storm
@pytest.mark.thorough
async def test_a_home_is_kept_until_the_server_dead_letters_again(node: PrivateRabbit) -> None:
    """As where it dead-letters while it boots, before its exchanges are there; it waits 180 s then."""
    prefix = f"{secrets.token_hex(4)}."
    async with connect(node, prefix) as broker, await aio_pika.connect(node.url) as connection:
        async with broker.consume(HOME, prefetch=1) as consumer:
            await broker.publish(HOME, b"step", message_id="1")
            await first(consumer)
            channel = await connection.channel()
            await channel.exchange_delete(f"{prefix}return")
        await asyncio.sleep(10 * HOME.grace_s)  # the fault itself
        entities = Entities(prefix)
        for entity in (*entities.base(), *entities.of(HOME)):
            await declare(channel, entity)
        async with (
            asyncio.timeout(PATIENCE_S),
            broker.consume(HOME.fallback, prefetch=1) as consumer,
        ):
            assert (await first(consumer)).message_id == "1"


async def test_queues_deleted_as_the_server_comes_up_leave_homes_in_order(
    node: PrivateRabbit,
) -> None:
    """RabbitMQ 3.10 may stop dead-lettering for good where such a queue dead-letters."""
    queues = [WorkQueue(f"work.{i}") for i in range(30)]
    async with connect(node) as broker:
        await broker.declare(*queues)
        await killed(node)
        await broker.delete(*queues)
        async with broker.consume(HOME, prefetch=1):
            await broker.publish(HOME, b"step", message_id="1")
        async with (
            asyncio.timeout(PATIENCE_S),
            broker.consume(HOME.fallback, prefetch=1) as consumer,
        ):
            assert (await first(consumer)).message_id == "1"


async def test_what_was_confirmed_by_a_queue_just_declared_is_safe(node: PrivateRabbit) -> None:
    async with connect(node) as broker:
        await broker.declare(QUEUE, STREAM)
        await asyncio.gather(
            broker.publish(QUEUE, b"1", message_id="1"),
            broker.publish(STREAM, b"1", message_id="1"),
        )
        await killed(node)
        async with asyncio.timeout(PATIENCE_S):
            async with broker.consume(QUEUE, prefetch=1) as consumer:
                assert (await first(consumer)).message_id == "1"
            async with broker.read(STREAM, start="first") as reader:
                assert (await first(reader)).message_id == "1"


@pytest.mark.parametrize("is_paused", [False, True], ids=["killed", "paused"])
async def test_closing_takes_no_longer_when_the_server_is_gone(
    node: PrivateRabbit, is_paused: bool
) -> None:
    async with connect(node) as broker, broker.subscribe(TOPIC) as subscriber:
        await broker.declare(QUEUE)
        waiting = asyncio.create_task(first(subscriber))
        (node.pause if is_paused else node.kill)()
        publishing = asyncio.create_task(broker.publish(QUEUE, b"x", message_id="x"))
        await asyncio.wait([publishing], timeout=0.5)
        async with asyncio.timeout(STOP_S):
            await broker.close()
        outcomes = await asyncio.gather(publishing, waiting, return_exceptions=True)
        assert all(isinstance(outcome, BrokerClosed) for outcome in outcomes)


async def test_a_publish_that_can_t_be_confirmed_fails_at_its_deadline(node: PrivateRabbit) -> None:
    async with connect(node) as broker:
        await broker.declare(QUEUE)
        node.pause()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(BrokerUnavailable, match=r"no confirm for \S*work within \d"):
                await broker.publish(QUEUE, b"x", message_id="x", timeout_s=3.0)
        node.resume()
        await broker.publish(QUEUE, b"y", message_id="y", timeout_s=PATIENCE_S)


async def test_a_wrong_password_is_named(node: PrivateRabbit) -> None:
    url = node.url.replace("guest:guest", "guest:secret")
    with pytest.raises(BrokerUnavailable, match="refused user 'guest'") as failure:
        async with open_rabbitmq(url):
            pass
    assert "secret" not in str(failure.value)


async def test_an_unknown_virtual_host_is_named(node: PrivateRabbit) -> None:
    with pytest.raises(BrokerUnavailable, match="virtual host"):
        async with open_rabbitmq(f"{node.url}nowhere"):
            pass


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(BrokerUnavailable, match=r"RabbitMQ at 127.0.0.1:9 within"):
        async with open_rabbitmq("amqp://guest:guest@127.0.0.1:9/", open_s=0.5):
            pass
