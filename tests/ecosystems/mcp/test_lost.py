"""Servers, sessions and env workers that are killed in the middle of episodes."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.ecosystems.mcp.serving import (
    CLASS,
    PROGRAM,
    PYTHON,
    STDIO,
    call,
    episode,
    failed,
    host,
    http,
    in_ci,
    installed,
    not_in_ci,
    questions,
    servers,
    texts,
    told,
)
from tests.ecosystems.real_server import RealServer
from tests.support.hosting import child_pids, hosting
from tests.support.patience import PATIENCE_S
from tests.support.processes import children, until_dead

from warren_env_worker.host.host import Host
from warren_schemas.episode import FailureKind

__all__ = ["host", "installed", "questions", "servers"]
pytestmark = pytest.mark.server


@in_ci
@pytest.mark.shows("MCP", "foreign process killed", "retries")
async def test_a_killed_server_costs_nothing_where_the_calls_are_answered_as_before(
    host: Host, questions: str, servers: dict[str, RealServer]
) -> None:
    put = call("put", article="tea")
    stdio = episode(host, questions, STDIO)
    await told(stdio, put)
    await _kill_stdio_servers()
    assert texts(await stdio.step(put)) == ["2 in the basket"]
    for kind, of, words, second in (
        ("stateless", {}, call("price", article="tea"), "3"),
        ("sessions", {"sessions": True}, put, "2 in the basket"),
    ):
        player = episode(host, questions, http(servers[kind], **of))
        await told(player, words)
        servers[kind].start_again()
        assert texts(await player.step(words)) == [second]


@not_in_ci
@pytest.mark.shows("MCP", "retries")
async def test_a_call_of_a_session_that_may_have_run_is_not_made_in_it_again(
    host: Host, questions: str, servers: dict[str, RealServer]
) -> None:
    put = call("put", article="tea")
    player = episode(host, questions, http(servers["cut"], sessions=True))
    assert (await told(player, put))[-1] == ["1 in the basket"]
    assert texts(await player.step(put)) == ["2 in the basket"]


@not_in_ci
@pytest.mark.shows("MCP", "retries")
async def test_a_session_outlives_a_server_that_is_too_busy_to_list_its_tools(
    host: Host, questions: str, servers: dict[str, RealServer]
) -> None:
    """As it begins, after a turn, and after a call that took too long, which is not made again."""
    player = episode(host, questions, http(servers["busy_lists"], sessions=True), call_s=2.0)
    begun, taught, put, late, again = await told(
        player, call("teach"), call("put", article="tea"), call("wait"), call("put", article="tea")
    )
    assert "Sing a song." not in begun[0]
    assert "Sing a song." in taught[1]
    assert put == ["1 in the basket"]
    assert late == ["Error: it took longer than 2 s"]
    assert again == ["2 in the basket"]


@not_in_ci
@pytest.mark.shows("MCP", "failures")
async def test_a_list_of_tools_that_does_not_end_is_told_of(
    host: Host, questions: str, servers: dict[str, RealServer]
) -> None:
    player = episode(host, questions, http(servers["endless"], sessions=True))
    failed(await player.reset(), FailureKind.ENVIRONMENT_ERROR, "more than 100 pages")


@not_in_ci
@pytest.mark.shows("MCP", "retries")
async def test_a_lost_session_that_answers_otherwise_fails_by_its_name(
    host: Host, questions: str
) -> None:
    player = episode(host, questions, STDIO)
    await told(player, call("pid"))
    await _kill_stdio_servers()
    failed(
        await player.step(call("pid")), FailureKind.NOT_REPLAYABLE, "answered action 1 differently"
    )
    dying = episode(host, questions, STDIO)
    await dying.reset()
    failed(await dying.step(call("die")), FailureKind.ENVIRONMENT_ERROR, "died 3 times")


@not_in_ci
@pytest.mark.shows("MCP", "env worker killed")
async def test_an_env_worker_that_dies_leaves_no_server_behind_and_another_goes_on(
    questions: str,
) -> None:
    put = call("put", article="tea")
    async with hosting(CLASS) as lost:
        player = episode(lost, questions, STDIO)
        await told(player, put)
        ours = [_fork_server(), *children(_fork_server()), *_stdio_servers()]
        assert len(ours) == 3
        os.kill(ours[-1], signal.SIGSTOP)  # it hears of no end of its input
        for pid in child_pids():
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            for pid in ours:
                await until_dead(pid)
        async with hosting(CLASS) as other:
            assert texts(await player.moved_to(other).step(put)) == ["2 in the basket"]


@not_in_ci
@pytest.mark.shows("MCP", "foreign process killed")
async def test_a_program_that_is_killed_as_it_starts_is_started_again(
    host: Host, questions: str, tmp_path: Path
) -> None:
    killed_once = f'test -e {tmp_path}/was || {{ touch {tmp_path}/was; kill -9 $$; }}; exec "$@"'
    command = ["/bin/sh", "-c", killed_once, "sh", PYTHON, PROGRAM, "stdio"]
    player = episode(host, questions, {"kind": "stdio", "command": command})
    assert (await told(player, call("price", article="tea")))[-1] == ["3"]
    assert (tmp_path / "was").exists()


def _fork_server() -> int:
    (host,) = child_pids()
    (server,) = children(host)
    return server


def _stdio_servers() -> list[int]:
    """Children of any thread of the episodes' processes."""
    return [server for pid in children(_fork_server()) for server in children(pid)]


async def _kill_stdio_servers() -> None:
    found = _stdio_servers()
    assert len(found) == 1
    os.kill(found[0], signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        await until_dead(found[0])
