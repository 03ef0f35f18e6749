"""Logs over HTTP, as the SDK and the command read them: each line once, in order, to the run's end."""

import asyncio
from contextlib import aclosing
from functools import partial

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from sqlalchemy import update
from sqlmodel import Session, col
from tests.support.factories import make_run_logged
from tests.support.gateway import Gateway, ended
from tests.support.patience import PATIENCE_S

import warren
from warren.cli.commands.runs.logs import logs
from warren.cli.options import Gateway as GatewayOption
from warren.connection.transport import Transport
from warren.settings import find_settings
from warren.streams.logs import LogReader
from warren_broker.inbox import follow
from warren_broker.topology import run_log
from warren_gateway.store.tables import Run
from warren_schemas.codec.wire import encode
from warren_schemas.envelope import Envelope
from warren_schemas.events import LogComponent, LogLevel, LogLine, RunLogged
from warren_schemas.http import LogView
from warren_schemas.ids import RunId, new_message_id


def said(run: RunId, *numbers: int, source: str = "log_1", n_logged: int = 0) -> RunLogged:
    lines = tuple(
        LogLine(number=n, at_s=float(n), level=LogLevel.INFO, text=f"{source} {n}") for n in numbers
    )
    return make_run_logged(
        envelope=Envelope(run=run),
        component=LogComponent.TRAINER,
        worker="trainer_00abcdef",
        source=source,
        n_logged=n_logged or numbers[-1],
        lines=lines,
    )


async def tell(gateway: Gateway, *items: RunLogged) -> None:
    for item in items:
        stream = run_log(item.envelope.run or "")
        await gateway.broker.publish(stream, encode([item]), message_id=new_message_id())


async def end(gateway: Gateway, run: RunId) -> None:
    def change(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == run).values(state="completed"))

    await gateway.store.transact(change)
    await gateway.tell(run, ended())


async def test_lines_come_once_and_what_is_missing_is_told(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    twice = said(run, 1, 2)
    await tell(gateway, twice, twice, said(run, 7, source="log_2"), said(run, 3, 6, n_logged=9))
    entries = [entry async for entry in (await client.run(run)).logs()]
    assert [entry.text for entry in entries] == [
        "log_1 1",
        "log_1 2",
        "6 lines were left out",
        "log_2 7",
        "log_1 3",
        "2 lines were left out",
        "log_1 6",
        "3 lines were left out",
    ]
    assert [entry.n_left_out for entry in entries if entry.n_left_out] == [6, 2, 3]
    assert {(entry.component, entry.worker) for entry in entries} == {
        ("trainer", "trainer_00abcdef")
    }
    again = [entry.text async for entry in (await client.run(run)).logs()]
    assert again == [entry.text for entry in entries]  # the mark of the first reader is no line


async def test_following_ends_with_the_run(gateway: Gateway, client: warren.Client) -> None:
    run = await gateway.submit()
    await tell(gateway, said(run, 1))
    handle = await client.run(run)
    async with asyncio.timeout(PATIENCE_S), aclosing(handle.logs(follow=True)) as entries:
        assert (await anext(entries)).text == "log_1 1"
        await tell(gateway, said(run, 2))
        assert (await anext(entries)).text == "log_1 2"
        await tell(gateway, said(run, 3))
        await end(gateway, run)
        assert [entry.text async for entry in entries] == ["log_1 3"]
    async with asyncio.timeout(PATIENCE_S):
        assert len([entry async for entry in handle.logs(follow=True)]) == 3


async def test_a_gateway_that_stops_does_not_look_like_the_end(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    await tell(gateway, said(run, 1))
    handle = await client.run(run)
    async with (
        asyncio.timeout(PATIENCE_S),
        aclosing(handle.logs(follow=True, reconnect_s=0.0)) as entries,
    ):
        await anext(entries)
        gateway.services.closing.set()
        with pytest.raises(warren.GatewayUnreachable):
            await anext(entries)


async def test_the_command_shows_who_said_what(
    gateway: Gateway, client: warren.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await gateway.submit()
    await tell(gateway, said(run, 1, n_logged=3))
    options = GatewayOption(gateway.url, gateway.ann.headers["Authorization"][7:])
    assert await asyncio.to_thread(partial(logs, run, gateway=options)) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("  trainer abcdef  log_1 1")
    assert second.endswith("  trainer abcdef  2 lines were left out")
    shown = partial(logs, run, level="error", json=True, gateway=options)
    assert await asyncio.to_thread(shown) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert '"n_left_out":2' in line  # they may be of that level


async def test_readers_of_a_run_that_is_over_push_nothing_out_of_its_log(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    await tell(gateway, said(run, 1))
    await end(gateway, run)
    handle = await client.run(run)
    for _ in range(3):
        assert [entry.text async for entry in handle.logs()] == ["log_1 1"]
    await tell(gateway, said(run, 2))
    async with follow(gateway.broker, run_log(run), RunLogged, start="first") as inbox:
        sources: list[str] = []
        while not sources or sources[-1] != "log_1" or len(sources) < 3:
            sources += [claim.item.source for claim in await anext(inbox)]
    assert [source == "log_1" for source in sources] == [True, False, True]


async def test_what_is_missing_is_told_at_the_time_of_the_last_line(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    nothing = said(run, 2, n_logged=9).model_copy(update={"lines": ()})
    await tell(gateway, said(run, 1, 2), nothing)
    entries = [entry async for entry in (await client.run(run)).logs()]
    assert [(entry.at_s, entry.n_left_out) for entry in entries] == [(1.0, 0), (2.0, 0), (2.0, 7)]


@pytest.mark.parametrize("follow", [False, True])
async def test_a_gateway_that_tells_nothing_new_is_not_asked_for_ever(follow: bool) -> None:
    """It answers each time with the same line, and hangs up."""
    n_asked = 0

    async def cut_off(request: web.Request) -> web.StreamResponse:
        nonlocal n_asked
        n_asked += 1
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        line = LogView(offset=3, logged=said(RunId("run_1"), 1)).model_dump_json()
        await response.write(line.encode() + b"\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    app = web.Application()
    app.router.add_get("/v1/runs/run_1/logs", cut_off)
    async with TestServer(app) as server:
        transport = Transport(
            find_settings(str(server.make_url("/")), "wk_1_x"), timeout_s=30.0, retry_s=0.0
        )
        reader = LogReader(transport, RunId("run_1"), follow=follow, reconnect_s=0.5)
        async with (
            asyncio.timeout(PATIENCE_S),
            warren.Client(transport),
            aclosing(reader.read()) as entries,
        ):
            assert (await anext(entries)).text == "log_1 1"
            with pytest.raises(warren.GatewayUnreachable):
                await anext(entries)
    assert n_asked > 1
