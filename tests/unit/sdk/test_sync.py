"""The client without `await`: against a real server, from a thread that has no loop of its own."""

import asyncio
import inspect
import signal
import threading
from collections.abc import AsyncGenerator, Callable

import pytest
from tests.support.fake_gateway import (
    COMPLETED,
    CONFIG,
    KEY,
    RUNNING,
    FakeGateway,
    fake_gateway,
    step,
)

import warren
from warren.access import Access
from warren.connection.loop_thread import LoopThread
from warren.sync.access import Access as SyncAccess
from warren_schemas.http import RunResult


@pytest.fixture
async def gateway() -> AsyncGenerator[FakeGateway]:
    async with fake_gateway() as server:
        yield server


async def test_a_run_from_submission_to_result(gateway: FakeGateway) -> None:
    gateway.script = (RUNNING, step(1), step(2), step(3), COMPLETED)
    gateway.result = RunResult(reward_after=0.9)

    def script() -> None:
        with warren.sync.connect(gateway.url, KEY) as client:
            run = client.train(CONFIG)
            assert [event.body for event in run.events()] == list(gateway.script)
            assert run.result().reward_after == 0.9
            assert client.run("last").id == client.run(CONFIG.name).id == run.id
            assert [other.id for other in client.runs()] == [run.id]
            assert run.follow() == run.result()

    await asyncio.to_thread(script)


async def test_it_works_where_a_loop_runs_already() -> None:
    thread = LoopThread()
    assert thread.call(asyncio.sleep(0, 42)) == 42  # blocks this loop, and needs it not
    thread.stop()


async def test_events_left_early_are_closed(gateway: FakeGateway) -> None:
    gateway.script = (RUNNING, step(1))

    def script() -> None:
        client = warren.sync.connect(gateway.url, KEY)
        events = client.train(CONFIG).events()
        assert next(events).body == RUNNING
        events.close()
        client.close()
        client.close()
        with pytest.raises(RuntimeError, match="closed"):
            client.runs()

    await asyncio.to_thread(script)


def test_errors_come_as_they_are() -> None:
    client = warren.sync.connect("http://127.0.0.1:9", KEY, retry_s=0.0)
    with client, pytest.raises(warren.GatewayUnreachable):
        client.runs()


def test_an_interrupted_call_is_over_when_it_returns() -> None:
    thread = LoopThread()
    was_closed = False

    async def wait_for_ever() -> None:
        nonlocal was_closed
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            was_closed = True

    with pytest.raises(KeyboardInterrupt):
        thread.call(wait_for_ever())
    assert was_closed
    thread.stop()


def test_a_callback_that_would_wait_for_itself_is_refused() -> None:
    thread = LoopThread()

    async def call_back() -> None:
        thread.call(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="callback"):
        thread.call(call_back())
    thread.stop()


@pytest.mark.parametrize(
    ("asynchronous", "synchronous"),
    [
        (warren.Client, warren.sync.Client),
        (warren.Run, warren.sync.Run),
        (warren.connect, warren.sync.connect),
        (Access, SyncAccess),
    ],
)
def test_both_clients_have_the_same_methods(
    asynchronous: Callable[..., object], synchronous: Callable[..., object]
) -> None:
    assert _signatures(asynchronous) == _signatures(synchronous)


def _signatures(of: Callable[..., object]) -> dict[str, object]:
    if not isinstance(of, type):
        return {"": _parameters(of)}
    found = {
        name: value for base in reversed(of.__mro__[:-1]) for name, value in vars(base).items()
    }
    members = {name: value for name, value in found.items() if not name.startswith("_")}
    members = {name: value for name, value in members.items() if name not in ("close", "view")}
    return {name: callable(value) and _parameters(value) for name, value in members.items()}


def _parameters(function: Callable[..., object]) -> list[tuple[str, object, object]]:
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in parameters]
