"""Events as a stream: complete, in order, resumable, and gone when either side is."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, update
from sqlmodel import Session, col
from tests.support.gateway import Gateway, ended, event, open_gateway, publish_events, step
from tests.support.observed_broker import ObservedBroker
from tests.support.patience import PATIENCE_S

from warren.connection.sse import ServerEvent, SseParser
from warren_broker.port import Broker
from warren_broker.topology import run_events
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.position import Position
from warren_gateway.store.outbox import post
from warren_gateway.store.store import Store
from warren_gateway.store.tables import OutboxRow, Run
from warren_gateway.timings import EventTimings, StreamTimings
from warren_schemas.events import RunEvent, RunState, StateChanged, WarningRaised
from warren_schemas.http import Problem
from warren_schemas.users.budgets import BudgetList

QUEUED = StateChanged(state=RunState.QUEUED)


def timings(**seconds: float) -> StreamTimings:
    """Of a gateway whose streams of events have these."""
    return StreamTimings(events=EventTimings(**seconds))


async def test_a_run_is_told_from_its_first_event_to_its_last(gateway: Gateway) -> None:
    run = await gateway.submit()
    await gateway.tell(run, QUEUED)
    await gateway.tell(run, step(1, reward_mean=0.5), step(2, reward_mean=0.6))
    await gateway.tell(run, step(3, reward_mean=0.7), ended())
    await gateway.tell(run, step(4, reward_mean=0.8))  # nothing comes after the end
    events = await _all(gateway, run)
    assert [event.name for event in events] == [
        "state_changed", "step_completed", "step_completed", "step_completed", "state_changed",
    ]  # fmt: skip
    ids = [int(event.id) for event in events]
    assert ids == sorted(set(ids))
    assert [RunEvent.model_validate_json(event.data).body for event in events][-1] == ended()


async def test_reading_goes_on_exactly_behind_the_last_event_seen(gateway: Gateway) -> None:
    run = await gateway.submit()
    await gateway.tell(run, QUEUED)
    await gateway.tell(run, *(step(number) for number in range(1, 5)))
    await gateway.tell(run, ended())
    events = await _all(gateway, run)
    for seen in range(len(events)):
        assert await _all(gateway, run, after=events[seen].id) == events[seen + 1 :]


async def test_what_happens_now_comes_now(gateway: Gateway) -> None:
    run = await gateway.submit()
    async with aclosing(_events(gateway, run)) as events:
        await gateway.tell(run, step(1))
        assert (await anext(events)).name == "step_completed"
        await gateway.tell(run, ended())
        assert (await anext(events)).name == "state_changed"
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_a_twin_is_told_once(gateway: Gateway) -> None:
    run = await gateway.submit()
    first = event(run, step(1))
    for _ in range(2):
        await publish_events(gateway.broker, run, [first])
    await gateway.tell(run, ended())
    assert [event.name for event in await _all(gateway, run)] == ["step_completed", "state_changed"]


async def test_a_twin_is_told_once_also_to_who_comes_back_between_the_two(gateway: Gateway) -> None:
    run = await gateway.submit()
    first, second = event(run, step(1)), event(run, step(2))
    for item in (first, second, first, second):
        await publish_events(gateway.broker, run, [item])
    await gateway.tell(run, ended())
    events = await _all(gateway, run)
    assert [event.name for event in events] == ["step_completed"] * 2 + ["state_changed"]
    for seen in range(3):
        assert await _all(gateway, run, after=events[seen].id) == events[seen + 1 :]


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "²", "9" * 40])
async def test_an_id_that_is_none_is_422(gateway: Gateway, text: str) -> None:
    run = await gateway.submit()
    headers = {"Last-Event-ID": text}
    async with gateway.ann.get(f"/v1/runs/{run}/events", headers=headers) as response:
        assert response.status == 422
        problem = Problem.model_validate_json(await response.read())
    assert problem.code == "invalid_last_event_id"


async def test_a_run_whose_events_are_no_longer_kept_ends_soon(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    def end(session: Session) -> None:
        session.exec(update(Run).values(state=RunState.FAILED))
        session.exec(delete(OutboxRow))

    soon = timings(quiet_s=0.05)
    async with open_gateway(store, broker, tmp_path, timings=soon) as gateway:
        run = await gateway.submit()
        await store.transact(end)
        async with asyncio.timeout(PATIENCE_S):
            assert await _all(gateway, run) == []


@pytest.mark.parametrize("quiet_s", [0.0, PATIENCE_S])
async def test_a_run_that_is_over_is_told_to_its_end_while_that_waits_in_the_outbox(
    store: Store, broker: Broker, tmp_path: Path, quiet_s: float
) -> None:
    """As when the gateway that ended it died before sending, until another one does.

    While its events wait, no silence ends the stream, however short; once they are sent, they need
    a silence that leaves them time to come.
    """
    waiting = timings(quiet_s=quiet_s, look_s=0.01, ping_s=0.01)
    async with open_gateway(store, broker, tmp_path, timings=waiting) as gateway:
        run = await _ended_unsent(gateway)
        async with gateway.ann.get(f"/v1/runs/{run}/events") as response:
            for _ in range(50):
                assert (await response.content.readline()).strip() in (b"", b": ping")
            if quiet_s:
                assert await _relayed(gateway, response) == [
                    "event: state_changed", "event: step_completed", "event: state_changed",
                ]  # fmt: skip


async def _ended_unsent(gateway: Gateway) -> str:
    """A run that is over, with all its events in the outbox."""
    run = await gateway.submit()

    def end(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == run).values(state=RunState.COMPLETED))
        post(session, run_events(run), event(run, step(1)), event(run, ended()))

    await gateway.store.transact(end)
    return run


async def _relayed(gateway: Gateway, response: aiohttp.ClientResponse) -> list[str]:
    """The names of the events that come once somebody sends what is in the outbox."""
    relaying = asyncio.create_task(gateway.relay.run())
    async with asyncio.timeout(PATIENCE_S):
        text = (await response.content.read()).decode()
    relaying.cancel()
    await asyncio.wait({relaying})
    return [line for line in text.splitlines() if line.startswith("event:")]


async def test_a_silent_run_is_kept_alive_by_pings(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    often = timings(ping_s=0.01)
    async with open_gateway(store, broker, tmp_path, timings=often) as gateway:
        run = await gateway.submit()
        async with gateway.ann.get(f"/v1/runs/{run}/events") as response:
            assert (await response.content.readline()).startswith(b":")


async def test_a_client_that_goes_away_is_let_go(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    often, observed = timings(ping_s=0.01), ObservedBroker(broker)
    async with open_gateway(store, observed, tmp_path, timings=often) as gateway:
        run = await gateway.submit()
        async with gateway.ann.get(f"/v1/runs/{run}/events") as response:
            assert response.status == 200
            response.close()
        async with asyncio.timeout(PATIENCE_S):
            await observed.has_left.wait()


async def test_a_client_that_takes_nothing_costs_little_and_is_let_go(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    impatient, observed = timings(send_s=0.2), ObservedBroker(broker)
    async with open_gateway(store, observed, tmp_path, timings=impatient) as gateway:
        run = await gateway.submit()
        for _ in range(20):
            await gateway.tell(run, *[WarningRaised(message="x" * 10_000)] * 64)
        with _deaf_client(gateway, run):
            async with asyncio.timeout(PATIENCE_S):
                await observed.has_left.wait()


async def test_stopping_ends_streams_at_once(store: Store, broker: Broker, tmp_path: Path) -> None:
    async with open_gateway(store, broker, tmp_path) as gateway:
        run = await gateway.submit()
        response = await gateway.ann.get(f"/v1/runs/{run}/events")
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(_stop(gateway), response.content.read())


async def test_many_who_follow_a_run_take_one_reader_of_the_broker(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    observed = ObservedBroker(broker)
    async with open_gateway(store, observed, tmp_path) as gateway, AsyncExitStack() as opened:
        run = await gateway.submit()
        told = [
            await opened.enter_async_context(aclosing(_events(gateway, run))) for _ in range(40)
        ]
        first = [asyncio.ensure_future(anext(one)) for one in told]
        await gateway.tell(run, step(1))
        names = [event.name for event in await asyncio.gather(*first)]
    assert (names, observed.n_readers) == (["step_completed"] * 40, 1)


@pytest.mark.parametrize("budgets", [BudgetOptions(streams_per_owner=2, streams=3)])
async def test_one_user_s_streams_are_not_all_there_is(gateway: Gateway) -> None:
    async with AsyncExitStack() as opened:
        run = await gateway.submit()
        path = f"/v1/runs/{run}/events"
        ones = [await opened.enter_async_context(gateway.ann.get(path)) for _ in range(2)]
        async with gateway.ann.get(path) as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (429, "2")
            problem = Problem.model_validate_json(await refused.read())
        assert problem.code == "over_budget"
        assert problem.message == "You have 2 open streams and request 1 more; the limit is 2."
        async with gateway.bob.get("/v1/budgets") as response:
            (streams, *_) = BudgetList.model_validate_json(await response.read()).budgets
        assert (streams.used, streams.total_used, streams.n_refused) == (0, 2, 0)
        await gateway.tell(run, ended())
        for one in ones:
            await one.read()
        async with gateway.ann.get(path) as again:
            assert again.status == 200


@given(offset=st.integers(0, 2**50), place=st.integers(0, 63))
def test_a_position_is_one_rising_number(offset: int, place: int) -> None:
    position = Position(offset, place)
    assert Position.parse(str(position)) == position
    following = Position(offset, place + 1) if place < 63 else Position(offset + 1)
    assert int(str(following)) == int(str(position)) + 1


async def _stop(gateway: Gateway) -> None:
    gateway.services.closing.set()


async def _events(
    gateway: Gateway, run: str, after: str | None = None
) -> AsyncGenerator[ServerEvent]:
    headers = {"Last-Event-ID": after} if after else {}
    parser = SseParser()
    async with gateway.ann.get(f"/v1/runs/{run}/events", headers=headers) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        async for chunk in response.content.iter_any():
            for parsed in parser.feed(chunk):
                yield parsed


async def _all(gateway: Gateway, run: str, after: str | None = None) -> list[ServerEvent]:
    async with asyncio.timeout(PATIENCE_S):
        return [event async for event in _events(gateway, run, after)]


def _deaf_client(gateway: Gateway, run: str) -> socket.socket:
    """Asks for the events and reads none."""
    address = urlsplit(gateway.url)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((address.hostname, address.port))
    key = gateway.ann.headers[aiohttp.hdrs.AUTHORIZATION]
    request = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\n\r\n"
    client.sendall(request.encode())
    return client
