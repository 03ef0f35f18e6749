"""Environments that are played in this process: every request is answered once, within limits and permissions."""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.clients import STEP_S, Client, LostClient
from tests.support.hosting import Player, observed, refused
from tests.support.interacting import spec

from warren_env_worker.host.calls import MAX_LOSSES
from warren_env_worker.host.environment_class.importing import import_environment
from warren_env_worker.host.host import Host
from warren_env_worker.host.in_process import CLIENTS
from warren_env_worker.host.startup import EnvironmentUnusable
from warren_env_worker.output.log import MakeHearing, log_path, nobody
from warren_schemas.episode import FailureKind, TaskRef
from warren_schemas.operator_policy import TRUSTING, OperatorPolicy

CLIENT = "tests.support.clients:Client"
PATIENT = "tests.support.clients:RetryingClient"
LOST = "tests.support.clients:LostClient"
FORGETFUL = "tests.support.clients:ForgetfulClient"
TOKEN = "hush-hush-1234"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Client.closed, Client.waits = [], asyncio.Event()


@asynccontextmanager
async def hosting(
    reference: str = CLIENT,
    policy: OperatorPolicy = TRUSTING,
    log_dir: Path | None = None,
    make_hearing: MakeHearing = nobody,
) -> AsyncGenerator[Host]:
    host = Host(
        reference, policy=policy, log_dir=log_dir, make_hearing=make_hearing, clients={reference}
    )
    running = asyncio.create_task(host.run(), name="host")
    try:
        yield host
    finally:
        running.cancel()
        await asyncio.wait({running})


async def begun(host: Host) -> Player:
    player = Player(host, spec("client"))
    await observed(player.reset())
    return player


def test_what_is_played_here_is_ours_and_async() -> None:
    for reference in CLIENTS:
        assert reference.startswith("warren_env_worker.environments.")
        environment = import_environment(reference)
        assert inspect.iscoroutinefunction(environment.step)


async def test_a_level_is_refused_where_the_environment_has_none() -> None:
    async with hosting() as host:
        answer = await refused(Player(host, spec("client", task=TaskRef(index=0, level=1))).reset())
        assert (answer.kind, answer.is_retryable) == (FailureKind.ENVIRONMENT_CONFIG, False)
        assert "curriculum: client has no levels" in answer.reason
        assert (await observed((await begun(host)).step("a"))).reward == 1.0


async def test_an_episode_from_its_beginning_to_its_end() -> None:
    async with hosting() as host:
        assert (await host.start()).name == "client"
        player = await begun(host)
        assert [m.content for m in player.transcript.messages] == ["ready"]
        assert (await observed(player.step("a"))).reward == 1.0
        assert (await observed(player.step("end"))).is_over
    assert Client.closed == ["a end"]


async def test_requests_that_came_before_the_class_was_there_are_answered_in_their_order() -> None:
    host = Host(CLIENT, policy=TRUSTING, clients={CLIENT})
    players = [Player(host, spec("client")) for _ in range(3)]
    asked = [asyncio.create_task(player.reset()) for player in players]
    running = asyncio.create_task(host.run())
    for each in asked:
        await observed(each)
    running.cancel()
    await asyncio.wait({running})
    assert Client.closed == ["", "", ""]


async def test_an_episode_moves_here_by_replay() -> None:
    async with hosting() as host, hosting() as other:
        player = await begun(host)
        await observed(player.step("a"))
        moved = player.moved_to(other)
        await observed(moved.step("b"))
    assert sorted(Client.closed) == ["a", "a b"]


async def test_an_episode_whose_process_is_lost_begins_anew_and_goes_on() -> None:
    LostClient.n_losses = 1
    async with hosting(LOST) as host:
        player = await begun(host)
        assert (await observed(player.step("a"))).reward == 1.0
    assert Client.closed == ["", "a"]


async def test_one_whose_process_is_lost_each_time_fails() -> None:
    LostClient.n_losses = MAX_LOSSES
    async with hosting(LOST) as host:
        refusal = await refused((await begun(host)).step("a"))
    assert refusal.kind is FailureKind.ENVIRONMENT_CRASHED
    assert len(Client.closed) == MAX_LOSSES


async def test_one_that_can_not_be_replayed_is_not() -> None:
    async with hosting(FORGETFUL) as host, hosting(FORGETFUL) as other:
        player = await begun(host)
        await observed(player.step("a"))
        refusal = await refused(player.moved_to(other).step("b"))
    assert refusal.kind is FailureKind.NOT_REPLAYABLE


async def test_a_step_that_takes_too_long_fails_its_episode_alone() -> None:
    async with hosting() as host:
        slow, quick = await begun(host), await begun(host)
        refusal = await refused(slow.step("wait"))
        assert refusal.kind is FailureKind.ENVIRONMENT_TIMEOUT
        assert refusal.reason == f"took longer than {STEP_S:g} s"
        await observed(quick.step("a"))
    assert sorted(Client.closed) == ["a", "wait"]


async def test_a_slot_that_is_closed_in_a_call_closes_its_episode() -> None:
    async with hosting(PATIENT) as host:
        player = await begun(host)
        asked = asyncio.create_task(player.step("wait"))
        await Client.waits.wait()
        host.close(player.slot)
        other = await begun(host)
        await observed(other.step("a"))
        assert Client.closed == ["wait"]
        asked.cancel()


async def test_what_waits_is_cancelled_and_closed_with_the_host() -> None:
    async with hosting(PATIENT) as host:
        player = await begun(host)
        asked = asyncio.create_task(player.step("wait"))
        await Client.waits.wait()
    assert Client.closed == ["wait"]
    asked.cancel()


async def test_an_episode_reaches_what_its_policy_lists_and_its_steps_nothing_more() -> None:
    listed = OperatorPolicy.model_validate({"services": [{"url": "https://there.example.org/"}]})
    async with hosting(policy=listed) as host:
        elsewhere = {"url": "https://elsewhere.example.org/"}
        refusal = await refused(Player(host, spec(environment_config=elsewhere)).reset())
        assert refusal.kind is FailureKind.ENVIRONMENT_CONFIG
        there = Player(host, spec(environment_config={"url": "https://there.example.org/"}))
        await observed(there.reset())
        assert (await observed(there.step("trusted"))).messages == [("user", "False")]


async def test_a_secret_stands_neither_in_a_log_nor_in_a_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("WARREN_SECRET_TOKEN", TOKEN)
    heard = bytearray()
    async with hosting(log_dir=tmp_path, make_hearing=lambda: heard.extend) as host:
        player = Player(host, spec(secrets=("TOKEN",)))
        await observed(player.reset())
        refusal = await refused(player.step("tell"))
        logging.getLogger("warren_env_worker.elsewhere").warning("not played")
    assert "raised <TOKEN>" in refusal.reason
    printed = log_path(tmp_path, CLIENT).read_text()
    for told in (printed, heard.decode()):
        assert "told <TOKEN>" in told
        assert "ValueError: raised <TOKEN>" in told
        assert "not played" not in told
    assert TOKEN not in caplog.text + printed + heard.decode() + refusal.reason
    assert caplog.messages == ["not played"]


async def test_two_hosts_log_apart(tmp_path: Path) -> None:
    logs = (tmp_path / "one", tmp_path / "two")
    async with hosting(log_dir=logs[0]) as one, hosting(log_dir=logs[1]) as two:
        for host, name in ((one, "first"), (two, "second")):
            player = await begun(host)
            await observed(player.step(f"log {name}"))
    printed = [log_path(each, CLIENT).read_text() for each in logs]
    assert ["first" in each for each in printed] == [True, False]
    assert ["second" in each for each in printed] == [False, True]


async def test_a_class_that_can_not_be_imported_refuses_what_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with hosting("tests.support.no:Such") as host:
        with pytest.raises(EnvironmentUnusable, match="there is no module"):
            await host.start()
        refusal = await refused(Player(host, spec()).reset())
    assert "there is no module" in refusal.reason
    assert "can't be hosted" in caplog.text
