"""Events across lost connections: every one, once, in order."""

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fake_gateway import (
    COMPLETED,
    CONFIG,
    KEY,
    OFFSETS_PER_EVENT,
    RUNNING,
    FakeGateway,
    fake_gateway,
    step,
)
from tests.support.patience import PATIENCE_S

import warren
from warren.connection.backoff import Backoff
from warren.connection.transport import Transport
from warren.settings import find_settings
from warren.streams.events import TWINS, ConnectionChanged, Event
from warren_schemas.events import RunState

N_STEPS = 12
STEPS = [step(i, N_STEPS) for i in range(1, N_STEPS + 1)]


def impatient(gateway: FakeGateway) -> warren.Client:
    """A client that hardly waits between two tries."""
    backoff, found = Backoff(first_s=0.001, ceiling_s=0.01), find_settings(gateway.url, KEY)
    return warren.Client(Transport(found, timeout_s=30.0, retry_s=10.0, backoff=backoff))


async def read_all(
    gateway: FakeGateway, run_id: str, *, on_connection: ConnectionChanged | None = None
) -> list[Event]:
    async with impatient(gateway) as client:
        run = await client.run(run_id)
        events = run.events(reconnect_s=math.inf, on_connection=on_connection)
        return [event async for event in events]


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 3000), max_size=8))
async def test_connections_cut_at_any_byte_lose_and_repeat_nothing(cuts: list[int]) -> None:
    async with fake_gateway() as gateway:
        gateway.cuts = list(cuts)
        run = gateway.add_run(RUNNING, *STEPS, COMPLETED)
        events = await read_all(gateway, run)
    assert [event.body for event in events] == [RUNNING, *STEPS, COMPLETED]
    assert [event.offset for event in events] == [i * OFFSETS_PER_EVENT for i in range(14)]


async def test_goes_on_behind_the_last_event_seen() -> None:
    async with fake_gateway() as gateway:
        gateway.cuts = [2000]
        run = gateway.add_run(RUNNING, *STEPS, COMPLETED)
        await read_all(gateway, run)
        first, second = gateway.resumed_after
    assert first is None
    assert second is not None
    assert 0 < int(second) < 13 * OFFSETS_PER_EVENT


async def test_a_gateway_that_goes_away_and_comes_back() -> None:
    gateway = FakeGateway()
    seen: list[str | None] = []
    lost = asyncio.Event()

    def on_connection(error: warren.WarrenError | None) -> None:
        seen.append(error.message if error else None)
        if error:
            lost.set()

    async with fake_gateway(gateway):
        run = gateway.add_run(RUNNING, *STEPS[:3])
        reading_all = asyncio.create_task(read_all(gateway, run, on_connection=on_connection))
        await gateway.opened.wait()
    await asyncio.wait_for(lost.wait(), PATIENCE_S)
    async with fake_gateway(gateway):
        await gateway.emit(run, *STEPS[3:], COMPLETED)
        events = await asyncio.wait_for(reading_all, PATIENCE_S)
    assert [event.body for event in events] == [RUNNING, *STEPS, COMPLETED]
    assert seen[0] is not None
    assert gateway.url in seen[0]
    assert seen[-1] is None


async def test_gives_up_after_its_patience() -> None:
    gateway = FakeGateway()
    async with impatient(gateway) as client:
        async with fake_gateway(gateway):
            run = await client.train(CONFIG)
        with pytest.raises(warren.GatewayUnreachable):
            async for _ in run.events(reconnect_s=0.05):
                pass


async def test_an_event_that_was_stored_twice_comes_once() -> None:
    async with fake_gateway() as gateway:
        run = gateway.add_run(RUNNING, STEPS[0])
        stored = gateway.runs[run]
        stored.events.append(stored.events[1])
        await gateway.emit(run, COMPLETED)
        events = await read_all(gateway, run)
    assert [event.body for event in events] == [RUNNING, STEPS[0], COMPLETED]


async def test_events_of_a_run_whose_stream_is_gone() -> None:
    async with fake_gateway() as gateway:
        run = gateway.add_run(COMPLETED)
        async with warren.connect(gateway.url, KEY) as client:
            handle = await client.run(run)
            assert [e async for e in handle.events(after=0)] == []


async def test_a_wrong_key_is_not_tried_again() -> None:
    async with fake_gateway() as gateway:
        gateway.add_run(RUNNING)
        async with warren.connect(gateway.url, KEY) as client:
            run = (await client.runs())[0]
        async with warren.connect(gateway.url, "wrong") as client:
            stranger = warren.Run(client._transport, run.view)  # pyright: ignore[reportPrivateUsage]
            with pytest.raises(warren.AuthenticationError):
                async for _ in stranger.events(reconnect_s=math.inf):
                    pass


async def test_an_event_of_a_newer_gateway_is_an_error_that_says_so() -> None:
    async with fake_gateway() as gateway:
        run = gateway.add_run(RUNNING)
        gateway.planted = {0: '{"body": {"kind": "moon_landed"}}'}
        with pytest.raises(warren.GatewayError, match="version"):
            await read_all(gateway, run)


async def test_a_long_run_is_followed_with_little_memory() -> None:
    assert TWINS < 1000
    async with fake_gateway() as gateway:
        run = gateway.add_run(RUNNING, *(step(i, 2000) for i in range(2000)), COMPLETED)
        assert len(await read_all(gateway, run)) == 2002


def test_states_that_end_a_stream() -> None:
    assert [state for state in RunState if state.is_final] == ["completed", "failed", "cancelled"]
