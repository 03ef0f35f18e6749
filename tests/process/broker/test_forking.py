"""Fork servers: what they save, and every way in which one may end."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.processes import children, is_alive, until_dead
from tests.support.serviced_environments import become

from warren_broker.worker.child import Child, ChildDied
from warren_broker.worker.credentials import harmless_variables
from warren_broker.worker.forking.client import ForkServer

PROGRAM = "tests.support.forked_program"
HANGING_UP = """
import os, pathlib, time
os.closerange(3, 100)
told = pathlib.Path(__file__).with_name("telling")
told.write_text(str(os.getpid()))
told.rename(told.with_name("hung up"))
time.sleep(3600)
"""
"""What a fork server imports."""
VARIABLES = {**harmless_variables(), "PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.fixture
async def server() -> AsyncGenerator[ForkServer]:
    others = children(
        os.getpid()
    )  # servers that the session's tests share, and what is reaped late
    server = ForkServer([PROGRAM], VARIABLES)
    yield server
    await server.close()
    assert {*children(os.getpid())} <= {*others}


async def start(server: ForkServer) -> Child:
    return await asyncio.wait_for(Child.fork(server, "the child", PROGRAM), PATIENCE_S)


async def starting_by(server: ForkServer) -> "asyncio.Task[Child]":
    """A start that the running server was asked for: before it waits for the first time, it asks."""
    starting = asyncio.create_task(Child.fork(server, "the child", PROGRAM))
    await asyncio.sleep(0)
    return starting


async def ask(child: Child, question: bytes) -> int:
    await child.send(question)
    return int(await asyncio.wait_for(child.receive(), PATIENCE_S))


async def death_of(child: Child) -> ChildDied:
    with pytest.raises(ChildDied) as caught:
        await asyncio.wait_for(child.receive(), PATIENCE_S)
    return caught.value


async def test_what_is_imported_is_imported_once(server: ForkServer) -> None:
    forked = [await start(server) for _ in range(3)]
    assert len({await ask(child, b"imported in") for child in forked}) == 1
    assert len({await ask(child, b"parent") for child in forked}) == 1
    for child in forked:
        await child.close()


async def test_each_has_random_numbers_of_its_own(server: ForkServer) -> None:
    forked = [await start(server) for _ in range(2)]
    assert len({await ask(child, b"random") for child in forked}) == 2
    for child in forked:
        await child.close()


async def test_they_die_with_it_and_the_next_one_is_forked_off_another(server: ForkServer) -> None:
    first, other = await start(server), await start(server)
    os.kill(await ask(first, b"parent"), signal.SIGKILL)
    for child in (first, other):
        death = await death_of(child)
        assert death.was_killed
        assert not child.is_alive
    again = await start(server)
    assert await ask(again, b"parent") != 0
    await again.close()


async def test_whoever_waits_for_it_when_it_is_killed_has_a_child_that_was(
    server: ForkServer,
) -> None:
    """Where that is the first one, a worker begins again, as with a child that is killed while it loads."""
    first = await start(server)
    pid = await ask(first, b"parent")
    os.kill(pid, signal.SIGSTOP)
    starting = await starting_by(server)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ChildDied) as death:
        await starting
    assert death.value.was_killed
    await death_of(first)


async def test_whoever_asks_it_as_it_dies_has_a_child_that_was_killed(tmp_path: Path) -> None:
    """A process that is killed hangs up a moment before anybody can tell that it has ended."""
    (tmp_path / "hanging_up.py").write_text(HANGING_UP)
    variables = VARIABLES | {"PYTHONPATH": f"{VARIABLES['PYTHONPATH']}:{tmp_path}"}
    server = ForkServer(["hanging_up"], variables)
    asked_before = await starting_by(server)
    told = tmp_path / "hung up"
    await become(told.exists)
    asked = await starting_by(server)
    os.kill(int(told.read_text()), signal.SIGKILL)
    for starting in (asked_before, asked):
        with pytest.raises(ChildDied) as death:
            await starting
        assert death.value.was_killed
    await server.close()


async def test_one_that_does_not_fork_in_time_is_killed_and_followed_by_another() -> None:
    server = ForkServer([PROGRAM], VARIABLES, fork_s=PATIENCE_S)
    first = await start(server)
    os.kill(await ask(first, b"parent"), signal.SIGSTOP)
    server.fork_s = 0.1
    with pytest.raises(OSError, match=r"no process could be forked within 0\.1 s"):
        await start(server)
    assert (await death_of(first)).was_killed
    server.fork_s = PATIENCE_S
    await (await start(server)).close()
    await server.close()


async def test_a_start_that_is_cancelled_leaves_no_process(server: ForkServer) -> None:
    first = await start(server)
    pid = await ask(first, b"parent")
    os.kill(pid, signal.SIGSTOP)
    starting = await starting_by(server)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    os.kill(pid, signal.SIGCONT)
    second = await start(server)
    for stray in {*children(pid)} - {first.pid, second.pid}:
        await until_dead(stray)
    third = await start(server)
    assert {*children(pid)} == {first.pid, second.pid, third.pid}
    for child in (first, second, third):
        await child.close()


async def test_a_death_is_heard_though_the_server_does_not_tell_it(server: ForkServer) -> None:
    child = await start(server)
    pid = await ask(child, b"parent")
    os.kill(pid, signal.SIGSTOP)
    os.kill(child.pid, signal.SIGKILL)
    assert (await death_of(child)).exit_code is None
    os.kill(pid, signal.SIGCONT)


async def test_what_can_not_be_imported_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    server = ForkServer(["tests.support.no_such_module"], VARIABLES)
    with pytest.raises(OSError, match="the fork server has died"):
        await asyncio.wait_for(Child.fork(server, "the child", PROGRAM), PATIENCE_S)
    await server.close()
    assert "no_such_module" in capfd.readouterr().err


async def test_a_program_that_fails_is_a_child_that_died(server: ForkServer) -> None:
    child = await Child.fork(server, "the child", "tests.support.no_such_module")
    assert (await death_of(child)).exit_code == 1


async def test_closing_the_server_ends_what_it_has_forked(server: ForkServer) -> None:
    child = await start(server)
    await server.close()
    await until_dead(child.pid)
    await death_of(child)
    assert not is_alive(child.pid)
