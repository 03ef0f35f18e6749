"""What is particular to the in-process broker: hubs, folders, restarts, fairness."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.brokers import read_all, take

from warren_broker.errors import BrokerUnavailable, Unroutable
from warren_broker.memory import open_hub, open_memory
from warren_broker.port import Broker, FromTime
from warren_broker.topic_event import MAX_UNSEEN
from warren_broker.topology import DEAD, Stream, Topic, WorkQueue

LOG = Stream("log")


QUEUE = WorkQueue("work")


async def append(broker: Broker, stream: Stream, numbers: range, size_bytes: int = 0) -> None:
    await broker.declare(stream)
    for number in numbers:
        body = b"%d " % number + b"x" * size_bytes
        await broker.publish(stream, body, message_id=f"id-{number}")


async def test_a_client_that_closes_hands_back_its_own_messages_only() -> None:
    async with open_hub() as hub:
        gateway, leaving, staying = (hub.client(name) for name in ("gateway", "a", "b"))
        await gateway.declare(QUEUE)
        for i in range(3):
            await gateway.publish(QUEUE, b"%d" % i, message_id=f"{i}")
        async with staying.consume(QUEUE, prefetch=1) as other:
            held = await take(other)
            async with leaving.consume(QUEUE, prefetch=2) as consumer:
                await take(consumer)
                await leaving.close()
            assert await gateway.depth(QUEUE) == 2
            await held.ack()
            assert (await take(other)).n_deliveries == 2


async def test_streams_survive_a_restart(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as broker:
        await append(broker, LOG, range(10))
        await append(broker, Stream("gone"), range(3))
        await broker.delete(Stream("gone"))
    async with open_memory(tmp_path) as broker:
        with pytest.raises(Unroutable):
            await broker.publish(Stream("gone"), b"x", message_id="1")
        await broker.publish(LOG, b"10", message_id="id-10")
        assert await read_all(broker, LOG, 11) == [(i, i) for i in range(11)]


async def test_a_folder_serves_one_process(tmp_path: Path) -> None:
    async with open_memory(tmp_path):
        with pytest.raises(BrokerUnavailable, match="another process uses"):
            async with open_memory(tmp_path):
                pass
    async with open_memory(tmp_path):
        pass


async def test_a_folder_that_can_not_be_used_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerUnavailable, match="can't be used"):
        async with open_memory(tmp_path / "file"):
            pass


async def test_a_broken_stream_file_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "streams.sqlite").write_bytes(b"this is not a database" * 1000)
    with pytest.raises(BrokerUnavailable, match="can't be opened"):
        async with open_memory(tmp_path):
            pass


async def test_a_stream_that_can_not_be_written_fails_its_callers_and_goes_on(
    tmp_path: Path,
) -> None:
    async with open_memory(tmp_path) as broker:
        await append(broker, LOG, range(2))
        with sqlite3.connect(tmp_path / "streams.sqlite") as other:
            other.execute("CREATE TRIGGER full BEFORE INSERT ON message BEGIN"
                          " SELECT RAISE(ABORT, 'the disk is full'); END")  # fmt: skip
        other.close()
        with pytest.raises(BrokerUnavailable, match="the disk is full"):
            await broker.publish(LOG, b"lost", message_id="lost")
        with sqlite3.connect(tmp_path / "streams.sqlite") as other:
            other.execute("DROP TRIGGER full")
        other.close()
        await broker.publish(LOG, b"2", message_id="id-2")
        assert await read_all(broker, LOG, 3) == [(0, 0), (1, 1), (2, 2)]


async def test_a_stream_that_can_not_be_made_is_no_error_of_the_caller(tmp_path: Path) -> None:
    """Whoever runs on a full disk waits for space, and does not fall over."""
    async with open_memory(tmp_path) as broker:
        with sqlite3.connect(tmp_path / "streams.sqlite") as other:
            other.execute("CREATE TRIGGER full BEFORE INSERT ON stream BEGIN"
                          " SELECT RAISE(ABORT, 'the disk is full'); END")  # fmt: skip
        other.close()
        with pytest.raises(BrokerUnavailable, match="the disk is full"):
            await broker.declare(LOG)
        with sqlite3.connect(tmp_path / "streams.sqlite") as other:
            other.execute("DROP TRIGGER full")
        other.close()
        await broker.declare(LOG)


async def test_a_stream_drops_its_oldest_when_it_is_too_large(tmp_path: Path) -> None:
    small = replace(LOG, max_size_bytes=10_000)
    async with open_memory(tmp_path) as broker:
        await append(broker, small, range(50), size_bytes=1000)
        async with broker.read(small, start="first") as reader:
            first = await take(reader)
        assert first.offset is not None
        assert 38 <= first.offset <= 42
    async with open_memory(tmp_path) as broker:
        n_left = 50 - first.offset
        assert await read_all(broker, small, n_left) == [(i, i) for i in range(first.offset, 50)]


async def test_a_stream_drops_what_is_too_old(tmp_path: Path) -> None:
    of_an_hour = replace(LOG, max_age_s=3600.0)
    async with open_memory(tmp_path) as broker:
        await append(broker, of_an_hour, range(5))
    with sqlite3.connect(tmp_path / "streams.sqlite") as other:
        other.execute("UPDATE message SET at_s = at_s - 7200")
    other.close()
    async with open_memory(tmp_path) as broker:
        await append(broker, of_an_hour, range(5, 6))
    async with open_memory(tmp_path) as broker:
        assert await read_all(broker, of_an_hour, 1) == [(5, 5)]
        await append(broker, of_an_hour, range(6, 7))


async def test_offsets_go_on_after_everything_was_dropped(tmp_path: Path) -> None:
    tiny = replace(LOG, max_size_bytes=0)
    async with open_memory(tmp_path) as broker:
        await append(broker, tiny, range(3))
    async with open_memory(tmp_path) as broker:
        await append(broker, LOG, range(3, 4))
        async with broker.read(LOG, start=FromTime(0.0)) as reader:
            assert (await take(reader)).offset == 3


async def test_a_slow_reader_goes_on_where_what_it_missed_was_dropped() -> None:
    small = replace(LOG, max_size_bytes=10_000)
    async with open_memory() as broker:
        await append(broker, small, range(5), size_bytes=1000)
        async with broker.read(small, start="first", prefetch=1) as reader:
            delivery = await take(reader)
            await append(broker, small, range(5, 2000), size_bytes=1000)
            offsets = [delivery.offset or 0]
            while offsets[-1] < 1999:
                await delivery.ack()
                delivery = await take(reader)
                offsets.append(delivery.offset or 0)
        assert offsets == sorted(set(offsets))
        assert len(offsets) < 1999


async def test_many_streams_are_kept_apart(tmp_path: Path) -> None:
    streams = [Stream(f"log-{i}") for i in range(20)]
    async with open_memory(tmp_path) as broker:
        await broker.declare(*streams)
        async with asyncio.TaskGroup() as tasks:
            for i, stream in enumerate(streams):
                tasks.create_task(append(broker, stream, range(i * 100, i * 100 + 30)))
    async with open_memory(tmp_path) as broker:
        for i, stream in enumerate(streams):
            wanted = [(n, i * 100 + n) for n in range(30)]
            assert await read_all(broker, stream, 30) == wanted


async def test_a_listener_keeps_the_newest_events() -> None:
    topic = Topic("news")
    async with open_memory() as broker, broker.subscribe(topic) as subscriber:
        for i in range(MAX_UNSEEN + 7):
            await broker.publish(topic, b"%d" % i, message_id=f"{i}")
        assert (await take(subscriber)).body == b"7"


async def test_dead_drops_its_oldest_when_it_is_full() -> None:
    async with open_hub() as hub:
        broker = hub.client("gateway")
        hub.queues.declare(DEAD).max_messages = 3
        for i in range(5):
            await broker.dead_letter(b"%d" % i, origin=QUEUE, reason="no", message_id=f"{i}")
        assert [letter.body for letter in await broker.dead_letters()] == [b"2", b"3", b"4"]


async def test_a_letter_whose_origin_is_gone_stays_in_dead() -> None:
    async with open_memory() as broker:
        await broker.dead_letter(b"x", origin=QUEUE, reason="no", message_id="1")
        with pytest.raises(Unroutable, match="work, which is gone"):
            await broker.requeue_dead_letter("1")
        assert len(await broker.dead_letters()) == 1


async def test_a_busy_publisher_and_a_busy_consumer_let_others_run() -> None:
    async with open_memory() as broker:
        await broker.declare(QUEUE)
        n_turns = 0

        async def count_turns() -> None:
            nonlocal n_turns
            while True:
                n_turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        for i in range(1000):
            await broker.publish(QUEUE, b"x", message_id=f"{i}")
        after_publishing = n_turns
        async with broker.consume(QUEUE, prefetch=1000) as consumer:
            for _ in range(1000):
                await (await anext(consumer)).ack()
        counting.cancel()
        assert after_publishing >= 10
        assert n_turns - after_publishing >= 20


async def test_one_consumer_serves_one_task() -> None:
    async with open_memory() as broker, broker.consume(QUEUE, prefetch=1) as consumer:
        first = asyncio.create_task(take(consumer))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two are iterating"):
            await anext(consumer)
        first.cancel()
