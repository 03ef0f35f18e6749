"""The client against a real server: what it asks, what it makes of the answers."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

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
from warren_schemas.events import RunState, StateChanged
from warren_schemas.http import Problem, QueueView, RunResult


@pytest.fixture
async def gateway() -> AsyncGenerator[FakeGateway]:
    async with fake_gateway() as server:
        yield server


def client_of(gateway: FakeGateway, *, key: str = KEY, retry_s: float = 5.0) -> warren.Client:
    return warren.connect(gateway.url, key, retry_s=retry_s)


async def test_a_run_from_submission_to_result(gateway: FakeGateway) -> None:
    gateway.script = (RUNNING, step(1), step(2), step(3), COMPLETED)
    gateway.result = RunResult(reward_before=0.3, reward_after=0.9)
    async with client_of(gateway) as client:
        run = await client.train(CONFIG)
        bodies = [event.body async for event in run.events()]
        result = await run.result()
    assert bodies == list(gateway.script)
    assert result.reward_after == 0.9
    assert run.state is RunState.COMPLETED


async def test_result_waits_for_the_end(gateway: FakeGateway) -> None:
    async with client_of(gateway) as client:
        run = await client.train(CONFIG)
        waiting = asyncio.create_task(run.result())
        await gateway.emit(run.id, RUNNING, step(1))
        assert not waiting.done()
        await gateway.emit(run.id, COMPLETED)
        assert await waiting == RunResult()


async def test_config_as_dict_and_as_file(gateway: FakeGateway, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("name: from-file\nmodel: {base: warren/tiny}\nenvironments: [{name: guess}]\n")
    async with client_of(gateway) as client:
        from_dict = await client.train(CONFIG.model_dump())
        from_file = await client.train(path)
    assert from_dict.view.config == CONFIG
    assert from_file.view.name == "from-file"


async def test_a_failed_run_raises_its_reason(gateway: FakeGateway) -> None:
    run_id = gateway.add_run(StateChanged(state=RunState.FAILED, reason="no groups"))
    async with client_of(gateway) as client:
        run = await client.run(run_id)
        with pytest.raises(warren.RunFailed, match="no groups") as caught:
            await run.result()
    assert caught.value.run == run_id


async def test_a_cancelled_run_raises(gateway: FakeGateway) -> None:
    async with client_of(gateway) as client:
        run = await client.train(CONFIG)
        assert (await run.cancel()).state is RunState.CANCELLED
        with pytest.raises(warren.RunCancelled, match="asked"):
            await run.result()
        assert (await run.cancel()).state is RunState.CANCELLED  # again changes nothing


async def test_a_submit_whose_answer_was_lost_makes_one_run(gateway: FakeGateway) -> None:
    gateway.drop_answers = 2
    async with client_of(gateway) as client:
        run = await client.train(CONFIG)
    assert list(gateway.runs) == [run.id]


async def test_two_submits_make_two_runs(gateway: FakeGateway) -> None:
    async with client_of(gateway) as client:
        first, second = await client.train(CONFIG), await client.train(CONFIG)
        runs = await client.runs()
    assert [run.id for run in runs] == [second.id, first.id]


async def test_the_callers_idempotency_key_is_used(gateway: FakeGateway) -> None:
    async with client_of(gateway) as client:
        first = await client.train(CONFIG, idempotency_key="the-same-key")
        assert (await client.train(CONFIG, idempotency_key="the-same-key")).id == first.id


async def test_workers_queues_and_health(gateway: FakeGateway) -> None:
    gateway.queues = (QueueView(name="interact.guess", n_ready=3),)
    async with client_of(gateway) as client:
        assert await client.workers() == ()
        assert await client.queues() == gateway.queues
        assert (await client.health()).status == "ok"


async def test_a_busy_gateway_is_asked_again(gateway: FakeGateway) -> None:
    gateway.problems = [(503, Problem(code="store_unavailable", message="The store is away."))]
    async with client_of(gateway) as client:
        assert await client.queues() == ()


BUSY = Problem(code="busy", message="Too much.", hint="Wait.")
REFUSED = Problem(code="invalid_config", message="Bad.", details=("seed: unknown key",))


@pytest.mark.parametrize(
    ("status", "problem", "error"),
    [
        (400, REFUSED, warren.ConfigurationError),
        (422, REFUSED, warren.ConfigurationError),
        (401, REFUSED, warren.AuthenticationError),
        (403, REFUSED, warren.AuthenticationError),
        (404, REFUSED, warren.NotFound),
        (409, REFUSED, warren.GatewayError),
        (429, BUSY, warren.GatewayBusy),
        (503, BUSY, warren.GatewayBusy),
        (500, REFUSED, warren.GatewayError),
    ],
)
async def test_problems_become_errors(
    gateway: FakeGateway, status: int, problem: Problem, error: type[warren.WarrenError]
) -> None:
    gateway.problems = [(status, problem)]
    async with client_of(gateway, retry_s=0.0) as client:
        with pytest.raises(error) as caught:
            await client.workers()
    assert type(caught.value) is error
    assert caught.value.message == problem.message
    assert caught.value.details == problem.details


@pytest.mark.parametrize("status", [200, 302, 404, 500])
async def test_another_program_at_the_port(gateway: FakeGateway, status: int) -> None:
    gateway.problems = [(status, None)]
    async with client_of(gateway, retry_s=0.0) as client:
        with pytest.raises(warren.GatewayError, match=gateway.url):
            await client.workers()


async def test_a_wrong_key_says_where_the_right_one_is(gateway: FakeGateway) -> None:
    async with client_of(gateway, key="wrong") as client:
        with pytest.raises(warren.AuthenticationError, match="WARREN_API_KEY"):
            await client.runs()


async def test_a_refused_key_is_told_in_words_of_the_command(gateway: FakeGateway) -> None:
    hint = "Send `Authorization: Bearer <key>`"
    gateway.problems = [(401, Problem(code="unauthorized", message="not known here", hint=hint))]
    async with client_of(gateway) as client:
        with pytest.raises(warren.AuthenticationError, match="not known here") as refused:
            await client.runs()
    assert "--api-key" in str(refused.value)
    assert "Bearer" not in str(refused.value)


async def test_an_unknown_run(gateway: FakeGateway) -> None:
    async with client_of(gateway) as client:
        with pytest.raises(warren.NotFound, match="run_nope"):
            await client.run("run_nope")
        with pytest.raises(warren.NotFound):
            await client.run("../../healthz")


async def test_nobody_answers() -> None:
    async with warren.connect("http://127.0.0.1:9", KEY, retry_s=0.0) as client:
        with pytest.raises(warren.GatewayUnreachable, match=r"127\.0\.0\.1:9.*refused"):
            await client.workers()


async def test_an_unreachable_gateway_is_tried_again() -> None:
    gateway = FakeGateway()
    async with client_of(gateway, retry_s=30.0) as client:
        asking = asyncio.create_task(client.queues())
        await asyncio.sleep(0)
        async with fake_gateway(gateway):
            assert await asking == ()


async def test_a_server_that_never_answers_meets_the_deadline() -> None:
    held: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        async with warren.connect(url, KEY, timeout_s=0.2, retry_s=0.0) as client:
            with pytest.raises(warren.GatewayUnreachable, match="in time"):
                await client.workers()
        for writer in held:
            writer.close()


async def test_no_key_at_all(
    gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WARREN_API_KEY", raising=False)
    monkeypatch.setenv("WARREN_HOME", str(tmp_path))
    async with warren.connect(gateway.url) as client:
        assert (await client.health()).status == "ok"
        with pytest.raises(warren.AuthenticationError, match="No API key") as caught:
            await client.runs()
    assert "`warren up`: it makes a key" in (caught.value.hint or "")


async def test_no_key_of_another_machines_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WARREN_API_KEY", raising=False)
    monkeypatch.setenv("WARREN_HOME", str(tmp_path))
    async with warren.connect("https://warren.example.org") as client:
        with pytest.raises(warren.AuthenticationError, match="No API key") as caught:
            await client.runs()
    assert "an admin makes one with `warren users add NAME`" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("host", "hint"),
    [("127.0.0.1", "Start one with `warren up`"), ("127.0.0.2", "listens to other machines")],
)
async def test_what_to_do_about_a_gateway_that_is_away(
    host: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", host)
    async with warren.connect(f"http://{host}:9", KEY, retry_s=0.0) as client:
        with pytest.raises(warren.GatewayUnreachable) as caught:
            await client.workers()
    assert hint in (caught.value.hint or "")
