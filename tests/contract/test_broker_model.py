"""Random operations on a broker against a model of a few lines.

The model knows where each message is: waiting, held by a consumer, done or dead; and what a stream
holds. At the end of every run, all that was published is accounted for.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from tests.support.brokers import Opener, Place, depth_is, letters_of, take
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.remote import gateway_for_all, open_remote_part

from warren_broker.memory import open_memory
from warren_broker.port import Broker, Consumer, Delivery
from warren_broker.rabbitmq import open_rabbitmq
from warren_broker.topology import DELIVERY_LIMIT

PREFETCH = 2
MAX_CONSUMERS = 3


@dataclass(eq=False)
class Worker:
    """A consumer and what it was handed."""

    consumer: Consumer
    stack: AsyncExitStack
    held: list[Delivery] = field(default_factory=list[Delivery])

    @property
    def n_free(self) -> int:
        return PREFETCH - len(self.held)


class BrokerMachine(RuleBasedStateMachine):
    open_client: ClassVar[Opener]
    counts_exactly: ClassVar[bool]
    """Whether a delivery counts only once it was handed out, prefetched ones don't."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.workers: list[Worker] = []
        self.waiting: set[str] = set()
        self.dead: set[str] = set()
        self.n_deliveries: Counter[str] = Counter()
        self.appended: list[bytes] = []
        self.n_published = 0
        self.runner.run(self._open())

    async def _open(self) -> None:
        self.stack = AsyncExitStack()
        self.place = Place("any", type(self).open_client, self.stack)
        self.broker: Broker = await self.place.client()
        self.queue, self.stream = self.place.queue(), self.place.stream()
        await self.broker.declare(self.queue, self.stream)

    @rule()
    def publish(self) -> None:
        self.n_published += 1
        name = f"msg-{self.n_published}"
        self.runner.run(self.broker.publish(self.queue, name.encode(), message_id=name))
        self.waiting.add(name)

    @precondition(lambda self: len(self.workers) < MAX_CONSUMERS)
    @rule()
    def consumer_comes(self) -> None:
        async def come() -> Worker:
            stack = AsyncExitStack()
            consuming = self.broker.consume(self.queue, prefetch=PREFETCH)
            return Worker(await stack.enter_async_context(consuming), stack)

        self.workers.append(self.runner.run(come()))

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def consumer_goes(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        self.workers.remove(worker)
        self.runner.run(worker.stack.aclose())
        for delivery in worker.held:
            self._came_back(delivery.message_id)

    @precondition(lambda self: self._who_must_get_one())
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self._who_must_get_one()))
        delivery = self.runner.run(take(worker.consumer))
        name = delivery.message_id
        assert delivery.body == name.encode()
        self.waiting.remove(name)
        self.n_deliveries[name] += 1
        if self.counts_exactly:
            assert delivery.n_deliveries == self.n_deliveries[name]
        else:
            assert delivery.n_deliveries >= self.n_deliveries[name]
        worker.held.append(delivery)

    def _who_must_get_one(self) -> list[Worker]:
        """Those for whom a message is left even if all others have prefetched what they can."""
        n_free = sum(worker.n_free for worker in self.workers)
        return [w for w in self.workers if w.n_free and len(self.waiting) > n_free - w.n_free]

    @precondition(lambda self: any(worker.held for worker in self.workers))
    @rule(data=st.data(), how=st.sampled_from(["ack", "nack", "dead_letter"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        worker = data.draw(st.sampled_from([w for w in self.workers if w.held]))
        delivery = data.draw(st.sampled_from(worker.held))
        worker.held.remove(delivery)
        name = delivery.message_id
        if how == "ack":
            self.runner.run(delivery.ack())
        elif how == "nack":
            self.runner.run(delivery.nack())
            self._came_back(name)
        else:
            self.runner.run(delivery.dead_letter("it was drawn"))
            self.dead.add(name)

    @rule()
    def append(self) -> None:
        body = b"%d" % len(self.appended)
        self.runner.run(self.broker.publish(self.stream, body, message_id=body.decode()))
        self.appended.append(body)

    @precondition(lambda self: self.appended)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(0, len(self.appended) - 1))

        async def read_on() -> list[tuple[int | None, bytes]]:
            found: list[tuple[int | None, bytes]] = []
            async with self.broker.read(self.stream, start=start, prefetch=3) as reader:
                while len(found) < len(self.appended) - start:
                    delivery = await take(reader)
                    found.append((delivery.offset, delivery.body))
                    await delivery.ack()
            return found

        assert self.runner.run(read_on()) == list(enumerate(self.appended))[start:]

    def _came_back(self, name: str) -> None:
        is_poison = self.n_deliveries[name] >= DELIVERY_LIMIT
        (self.dead if is_poison else self.waiting).add(name)

    def teardown(self) -> None:
        try:
            self.runner.run(self._account_for_all())
        finally:
            self.runner.run(self.stack.aclose())
            self.runner.close()

    async def _account_for_all(self) -> None:
        for worker in self.workers:
            await worker.stack.aclose()
            for delivery in worker.held:
                self._came_back(delivery.message_id)
        async with self.broker.consume(self.queue, prefetch=1000) as consumer:
            left = [await take(consumer) for _ in self.waiting]
            assert {delivery.message_id for delivery in left} == self.waiting
            for delivery in left:
                await delivery.ack()
        await depth_is(self.broker, self.queue, 0)
        letters = await letters_of(self.broker, self.queue, len(self.dead))
        assert {letter.body.decode() for letter in letters} == self.dead
        await self.broker.delete(*self.place.used)


def run(
    open_client: Callable[[str], AbstractAsyncContextManager[Broker]],
    *,
    counts_exactly: bool,
    max_examples: int,
) -> None:
    attributes = {"open_client": staticmethod(open_client), "counts_exactly": counts_exactly}
    machine = type("Machine", (BrokerMachine,), attributes)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max_examples,
            stateful_step_count=60,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


def test_the_in_process_broker_does_what_the_model_does() -> None:
    run(lambda name: open_memory(name=name), counts_exactly=True, max_examples=60)


@asynccontextmanager
async def opened_remotely(name: str) -> AsyncGenerator[Broker]:
    async with (
        open_memory(name="gateway") as direct,
        gateway_for_all(direct) as url,
        open_remote_part(url, direct, name) as broker,
    ):
        yield broker


def test_the_remote_broker_does_what_the_model_does() -> None:
    run(opened_remotely, counts_exactly=False, max_examples=20)


@several_waits
@pytest.mark.server
def test_rabbitmq_does_what_the_model_does(private_rabbit: PrivateRabbit) -> None:
    run(
        lambda name: open_rabbitmq(private_rabbit.url, name=name),
        counts_exactly=False,
        max_examples=5,
    )
