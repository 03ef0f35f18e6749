"""The registry: who is alive, and who hears of a change."""

import asyncio
import time

from tests.support.gateway import heartbeat
from tests.support.patience import PATIENCE_S

from warren_broker.inbox import listen
from warren_broker.port import Broker
from warren_broker.topology import HEARTBEAT_REQUESTS, WORKERS
from warren_broker.worker.heartbeat import announce
from warren_gateway.registry import LATE_S, Registry
from warren_schemas.control import Heartbeat, HeartbeatsRequested, WorkerRole

SAMPLER, TRAINER = WorkerRole.SAMPLER, WorkerRole.TRAINER


async def test_hears_of_a_worker_through_the_broker(broker: Broker) -> None:
    registry = Registry(broker)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(registry.run())
        while not registry.alive():  # nobody keeps an event: say it until it is heard
            await announce(broker, heartbeat("w1", SAMPLER, "tiny"))
            await asyncio.sleep(0)
        running.cancel()
    assert registry.alive() == []  # a registry that does not listen knows nothing


async def test_a_gateway_that_starts_asks_for_heartbeats(broker: Broker) -> None:
    """Once it listens: an answer can't come too early."""
    await broker.declare(HEARTBEAT_REQUESTS)
    async with (
        asyncio.timeout(PATIENCE_S),
        listen(broker, HEARTBEAT_REQUESTS, HeartbeatsRequested) as requests,
        asyncio.TaskGroup() as tasks,
    ):
        registry = Registry(broker)
        running = tasks.create_task(registry.run())
        await anext(requests)
        await announce(broker, heartbeat("w1", SAMPLER, "tiny"))
        await registry.changed(since=0)
        running.cancel()


async def test_a_message_that_is_no_heartbeat_does_no_harm(broker: Broker) -> None:
    registry = Registry(broker)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(registry.run())
        while not registry.alive():
            await broker.publish(WORKERS, b"nonsense", message_id="m1")
            await announce(broker, heartbeat("w1", SAMPLER, "tiny"))
            await asyncio.sleep(0)
        running.cancel()


async def test_lists_by_role_in_order_of_ids(broker: Broker) -> None:
    registry = Registry(broker)
    for name, role in (("c", SAMPLER), ("a", TRAINER), ("b", SAMPLER)):
        registry.hear(heartbeat(name, role, "tiny"))
    assert [beat.worker for beat in registry.alive()] == ["a", "b", "c"]
    assert [beat.worker for beat in registry.alive(SAMPLER)] == ["b", "c"]


async def test_a_silent_worker_is_removed_by_a_timer(broker: Broker) -> None:
    registry = Registry(broker)
    registry.hear(heartbeat("w1", SAMPLER, "tiny", interval_s=0.01))
    async with asyncio.timeout(PATIENCE_S):
        await registry.changed()
    assert registry.alive() == []


async def test_a_gateway_that_stood_still_does_not_take_its_own_silence_for_theirs(
    broker: Broker,
) -> None:
    registry = Registry(broker)
    registry.hear(heartbeat("w1", SAMPLER, "tiny", interval_s=0.5))
    time.sleep(3 * 0.5 + 2 * LATE_S)  # noqa: ASYNC251 - that is the point
    await asyncio.sleep(0)  # the timer is due
    await asyncio.sleep(0)
    assert [beat.worker for beat in registry.alive()] == ["w1"]
    async with asyncio.timeout(PATIENCE_S):
        await registry.changed()
    assert registry.alive() == []


async def test_a_worker_that_leaves_is_gone_at_once(broker: Broker) -> None:
    registry = Registry(broker)
    registry.hear(heartbeat("w1", SAMPLER, "tiny"))
    registry.hear(heartbeat("w1", SAMPLER, "tiny", is_leaving=True))
    assert registry.alive() == []
    assert registry.generation == 2


async def test_a_heartbeat_that_comes_late_or_twice_takes_back_nothing(broker: Broker) -> None:
    """The lease that a trainer has taken since would count as given back."""
    registry = Registry(broker)
    held = [{"model": "model_1", "epoch": 1}]
    empty = heartbeat("w1", TRAINER, "tiny", clock_ns=1)
    newest = heartbeat("w1", TRAINER, "tiny", clock_ns=2, models=held)
    for late in (empty, heartbeat("w1", TRAINER, "tiny", is_leaving=True, clock_ns=1), newest):
        registry.hear(newest)
        registry.hear(late)
        assert registry.alive() == [newest]
    assert registry.generation == 1


async def test_who_has_left_is_not_brought_back_by_what_it_said_before(broker: Broker) -> None:
    registry = Registry(broker)
    registry.hear(heartbeat("w1", TRAINER, "tiny", clock_ns=1))
    registry.hear(heartbeat("w1", TRAINER, "tiny", clock_ns=3, is_leaving=True))
    registry.hear(heartbeat("w1", TRAINER, "tiny", clock_ns=2))
    assert registry.alive() == []
    registry.hear(heartbeat("w1", TRAINER, "tiny", clock_ns=4))
    assert [beat.worker for beat in registry.alive()] == ["w1"]


async def test_clocks_of_two_processes_are_not_compared(broker: Broker) -> None:
    """A worker of a chosen name that begins again on another host."""
    registry = Registry(broker)
    registry.hear(heartbeat("w1", SAMPLER, "tiny", host="a", clock_ns=2))
    anew = heartbeat("w1", SAMPLER, "tiny", host="b", clock_ns=1)
    registry.hear(anew)
    assert registry.alive() == [anew]


async def test_workers_date_their_heartbeats(broker: Broker) -> None:
    async with listen(broker, WORKERS, Heartbeat) as inbox, asyncio.timeout(PATIENCE_S):
        for _ in range(2):
            await announce(broker, heartbeat("w1", SAMPLER, "tiny"))
        clocks = list[int]()
        while len(clocks) < 2:
            clocks += [claim.item.clock_ns for claim in await anext(inbox)]
    assert 0 < clocks[0] < clocks[1]


async def test_only_what_others_plan_by_is_a_change(broker: Broker) -> None:
    registry = Registry(broker)
    held = [{"model": "model_1", "epoch": 1}]
    registry.hear(heartbeat("w1", TRAINER, "tiny"))
    assert registry.generation == 1
    registry.hear(heartbeat("w1", TRAINER, "tiny", in_flight=3, n_done=7))
    assert registry.generation == 1
    registry.hear(heartbeat("w1", TRAINER, "tiny", models=held))
    assert registry.generation == 2
    registry.hear(heartbeat("w1", TRAINER, "tiny", "large", models=held))
    assert registry.generation == 3
    registry.hear(heartbeat("w2", TRAINER, "tiny", is_leaving=True))  # never seen before
    assert registry.generation == 3


async def test_changed_wakes_all_who_wait_and_misses_nothing(broker: Broker) -> None:
    registry = Registry(broker)
    before = registry.generation
    waiting = [asyncio.create_task(registry.changed()) for _ in range(3)]
    await asyncio.sleep(0)
    registry.hear(heartbeat("w1", SAMPLER, "tiny"))
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*waiting)
        await registry.changed(since=before)


async def test_offered_wakes_all_who_wait_for_this_base_model_and_nobody_else(
    broker: Broker,
) -> None:
    registry = Registry(broker)
    wanted = [asyncio.create_task(registry.offered(SAMPLER, "tiny")) for _ in range(3)]
    other = asyncio.create_task(registry.offered(SAMPLER, "large"))
    await asyncio.sleep(0)
    registry.hear(heartbeat("w1", TRAINER, "tiny", "large"))
    registry.hear(heartbeat("w2", SAMPLER, loading=("tiny",)))
    await asyncio.sleep(0)
    assert not any(task.done() for task in (*wanted, other))
    registry.hear(heartbeat("w2", SAMPLER, "tiny"))
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*wanted)
        await registry.offered(SAMPLER, "tiny")
    assert not other.done()
    other.cancel()
