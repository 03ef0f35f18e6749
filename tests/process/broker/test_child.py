"""Child processes: frames both ways, and every way in which one of the two may end."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest
import uvloop
from tests.support.patience import PATIENCE_S
from tests.support.processes import is_alive, until_dead

from warren_broker.worker.channel import Channel
from warren_broker.worker.child import Child, ChildDied, FrameTooLong
from warren_broker.worker.credentials import harmless_variables
from warren_broker.worker.forking.client import ForkServer

PATHS = {"PYTHONPATH": str(Path(__file__).parents[3])}
PROGRAM = "tests.support.obedient_child"


class Spawn(Protocol):
    async def __call__(
        self, *arguments: str, n_threads: int = 1, log_path: Path | None = None
    ) -> Child: ...


@asynccontextmanager
async def spawning(*, forks: bool) -> AsyncGenerator[Spawn]:
    """By a command, or by a fork of a process that knows the child's program."""
    server = ForkServer([PROGRAM], {**harmless_variables(), **PATHS})
    start = partial(Child.fork, server) if forks else Child.spawn

    async def spawn(*arguments: str, n_threads: int = 1, log_path: Path | None = None) -> Child:
        return await start(
            "the child",
            PROGRAM,
            arguments,
            n_threads=n_threads,
            environment=PATHS,
            log_path=log_path,
        )

    try:
        yield spawn
    finally:
        await server.close()


@pytest.fixture(params=[False, True], ids=["executed", "forked"])
def forks(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
async def spawn(forks: bool) -> AsyncGenerator[Spawn]:
    async with spawning(forks=forks) as spawn:
        yield spawn


@pytest.fixture
async def child(spawn: Spawn) -> AsyncGenerator[Child]:
    child = await spawn()
    yield child
    await child.close(grace_s=0.1)


@pytest.mark.parametrize("size_bytes", [0, 1, 70_000, 9_000_000])
async def test_frames_come_back_unchanged(child: Child, size_bytes: int) -> None:
    body = os.urandom(size_bytes)
    async with asyncio.timeout(PATIENCE_S):
        await child.send(b"echo " + body)
        assert await child.receive() == body


async def test_frames_keep_their_order_while_sent_and_received_at_once(child: Child) -> None:
    bodies = [b"%d" % i * 1000 for i in range(300)]

    async def send() -> None:
        for body in bodies:
            await child.send(b"echo " + body)

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(send())
        assert [await child.receive() for _ in bodies] == bodies


async def test_no_more_is_taken_from_a_child_than_whoever_receives_wants(child: Child) -> None:
    await child.send(b"echo 1234")
    assert await child.receive(most_bytes=4) == b"1234"
    await child.send(b"echo 12345")
    with pytest.raises(FrameTooLong, match="the child sends 5 bytes at once"):
        await child.receive(most_bytes=4)


async def test_a_child_that_exits_is_an_error_with_its_code(child: Child) -> None:
    await child.send(b"exit 3")
    with pytest.raises(ChildDied, match="the child ended with exit code 3") as caught:
        await asyncio.wait_for(child.receive(), PATIENCE_S)
    assert caught.value.exit_code == 3


async def test_a_killed_child_is_an_error_with_the_signal(child: Child) -> None:
    await child.send(b"hang")
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ChildDied, match="the child was killed by SIGKILL"):
        await asyncio.wait_for(child.receive(), PATIENCE_S)


async def test_sending_to_a_dead_child_is_the_same_error(child: Child) -> None:
    await child.send(b"exit 4")
    with pytest.raises(ChildDied):
        await asyncio.wait_for(child.receive(), PATIENCE_S)
    for _ in range(2):
        with pytest.raises(ChildDied, match="exit code 4"):
            await asyncio.wait_for(child.send(b"echo x"), PATIENCE_S)


async def test_a_child_that_does_not_read_holds_the_sender_and_its_death_frees_it(
    child: Child,
) -> None:
    await child.send(b"hang")

    async def flood() -> None:
        while True:
            await child.send(b"x" * 1_000_000)

    flooding = asyncio.create_task(flood())
    await asyncio.wait([flooding], timeout=0.3)
    assert not flooding.done()
    child.kill()
    with pytest.raises(ChildDied, match="SIGKILL"):
        await asyncio.wait_for(flooding, PATIENCE_S)


async def test_close_lets_a_child_leave(child: Child) -> None:
    await child.send(b"echo x")
    await child.receive()
    await asyncio.wait_for(child.close(grace_s=PATIENCE_S), PATIENCE_S)
    with pytest.raises(ChildDied, match="exit code 0"):
        await child.receive()


async def test_close_kills_what_does_not_leave(child: Child) -> None:
    await child.send(b"hang")
    await asyncio.wait_for(child.close(grace_s=0.2), PATIENCE_S)
    with pytest.raises(ChildDied, match="SIGKILL"):
        await child.receive()


async def test_a_cancelled_close_kills_at_once(child: Child) -> None:
    await child.send(b"hang")
    closing = asyncio.create_task(child.close(grace_s=3600.0))
    await asyncio.wait([closing], timeout=0.1)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(closing, PATIENCE_S)
    assert not is_alive(child.pid)


async def forked(child: Child, shared: str) -> int:
    """A process that holds the child's end of the socket, too; see `obedient_child`."""
    await child.send(b"fork " + shared.encode())
    return int(await asyncio.wait_for(child.receive(), PATIENCE_S))


@asynccontextmanager
async def stranger(child: Child) -> AsyncGenerator[int]:
    """One that left the child's session, so that it outlives the child."""
    pid = await forked(child, "nothing")
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("shared", ["group", "session"])
async def test_what_a_child_started_dies_with_it(child: Child, shared: str) -> None:
    grandchild = await forked(child, shared)
    assert is_alive(grandchild)
    await child.send(b"exit 3")
    with pytest.raises(ChildDied, match="exit code 3"):
        await asyncio.wait_for(child.receive(), PATIENCE_S)
    await until_dead(grandchild)


@pytest.mark.parametrize("shared", ["group", "session"])
async def test_what_a_child_started_dies_with_it_though_nobody_talks_to_it(
    child: Child, shared: str
) -> None:
    grandchild = await forked(child, shared)
    child.kill()
    await until_dead(grandchild)


async def test_a_cancelled_close_kills_what_the_child_started(child: Child) -> None:
    grandchild = await forked(child, "session")
    await child.send(b"hang")
    closing = asyncio.create_task(child.close(grace_s=3600.0))
    await asyncio.wait([closing], timeout=0.1)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(closing, PATIENCE_S)
    await until_dead(grandchild)


async def test_who_else_holds_the_socket_does_not_hide_a_death(child: Child) -> None:
    async with stranger(child) as pid:
        child.kill()
        for _ in range(2):
            with pytest.raises(ChildDied, match="SIGKILL"):
                await asyncio.wait_for(child.receive(), PATIENCE_S)
        with pytest.raises(ChildDied, match="SIGKILL"):
            await asyncio.wait_for(child.send(b"echo x"), PATIENCE_S)
        assert is_alive(pid)


async def test_who_else_holds_the_socket_does_not_hold_the_sender(child: Child) -> None:
    async with stranger(child):
        await child.send(b"hang")
        sending = asyncio.create_task(child.send(bytes(20_000_000)))
        await asyncio.wait([sending], timeout=0.1)
        assert not sending.done()
        child.kill()
        with pytest.raises(ChildDied, match="SIGKILL"):
            await asyncio.wait_for(sending, PATIENCE_S)


async def test_who_else_holds_the_socket_does_not_hold_close(child: Child) -> None:
    async with stranger(child):
        await child.send(b"hang")
        await child.send(bytes(2**21))
        await asyncio.wait_for(child.close(grace_s=0.1), PATIENCE_S)


@pytest.mark.parametrize("n", [1, 21])
async def test_what_a_child_said_before_it_died_is_received(child: Child, n: int) -> None:
    """Also what does not fit into the reader, and lies in the socket."""
    async with stranger(child):
        await child.send(b"repeat %d" % n)
        await child.send(b"exit 5")
        await until_dead(child.pid)
        for _ in range(n):
            said = await asyncio.wait_for(child.receive(), PATIENCE_S)
            assert said == (b"%d" % n).ljust(100_000)
        with pytest.raises(ChildDied, match="exit code 5"):
            await asyncio.wait_for(child.receive(), PATIENCE_S)


async def test_what_a_child_said_is_received_though_it_did_not_hear_all(child: Child) -> None:
    await child.send(b"echo 1")
    await child.send(b"echo 2")
    await child.send(b"exit 5")
    with contextlib.suppress(ChildDied):  # it may be dead by now
        await child.send(b"echo 3")
    await until_dead(child.pid)
    with pytest.raises(ChildDied, match="exit code 5"):
        await child.send(b"echo 4")
    assert [await child.receive(), await child.receive()] == [b"1", b"2"]
    with pytest.raises(ChildDied, match="exit code 5"):
        await child.receive()


@pytest.mark.parametrize(
    "end",
    [
        test_who_else_holds_the_socket_does_not_hide_a_death,
        test_who_else_holds_the_socket_does_not_hold_the_sender,
        test_who_else_holds_the_socket_does_not_hold_close,
        partial(test_what_a_child_said_before_it_died_is_received, n=21),
        test_what_a_child_said_is_received_though_it_did_not_hear_all,
    ],
)
def test_it_ends_no_other_way_on_the_event_loop_of_env_workers(
    end: Callable[[Child], Awaitable[None]], forks: bool
) -> None:
    async def with_child() -> None:
        async with spawning(forks=forks) as spawn:
            child = await spawn()
            await end(child)
            await child.close(grace_s=0.1)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(with_child())


def test_a_detached_socket_is_closed_by_its_new_owner() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        channel = Channel(theirs)
        channel.detach().close()
        assert ours.recv(1) == b""
        del channel


async def test_a_killed_supervisor_takes_its_child_with_it() -> None:
    environment = {**os.environ, **PATHS}
    command = [sys.executable, "-m", "tests.support.obedient_supervisor"]
    supervisor = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=subprocess.PIPE
    )
    assert supervisor.stdout is not None
    child_pid = int(await asyncio.wait_for(supervisor.stdout.readline(), PATIENCE_S))
    assert is_alive(child_pid)
    supervisor.kill()
    await supervisor.wait()
    await until_dead(child_pid)


async def test_threads_are_bounded(spawn: Spawn) -> None:
    child = await spawn(n_threads=2)
    with contextlib.suppress(ChildDied):
        await child.send(b"threads")
        assert await asyncio.wait_for(child.receive(), PATIENCE_S) == b"2"
    await child.close()


async def test_what_a_child_says_goes_to_its_log(spawn: Spawn, tmp_path: Path) -> None:
    child = await spawn(log_path=tmp_path / "child.log")
    await child.send(b"exit nonsense")
    with pytest.raises(ChildDied, match="exit code 1"):
        await asyncio.wait_for(child.receive(), PATIENCE_S)
    assert "invalid literal" in (tmp_path / "child.log").read_text()


SECRET = "hunter2-hunter2"


async def test_only_the_child_can_read_its_arguments(spawn: Spawn) -> None:
    url = f"s3://me:{SECRET}@store/checkpoints"
    child = await spawn(url, "0")
    async with asyncio.timeout(PATIENCE_S):
        await child.send(b"arguments")
        assert await child.receive() == f"{url} 0".encode()
    shown = shown_by_proc(child.pid)
    await child.close(grace_s=0.1)
    assert SECRET.encode() not in shown
    assert b"tests.support.obedient_child the child" in shown.replace(b"\0", b" ")


async def test_a_program_hides_its_credentials_from_proc() -> None:
    """Those of its command line, and of the variables that it was started with; it keeps them itself."""
    program = (
        "import os, sys; from warren_broker.worker.credentials import hide_credentials\n"
        "hide_credentials(); print(sys.argv[1:], os.environ['WARREN_SECRET_X'], flush=True)\n"
        "sys.stdin.read()"
    )
    own = ("--broker", f"amqp://me:{SECRET}@host/v", "--api-key", SECRET, f"--api-key={SECRET}")
    urls = (f"--checkpoints=s3://b/c?session_token={SECRET}&x=1", "plain")
    variables = {
        "WARREN_SECRET_X": SECRET,
        "WARREN_BROKER_URL": f"amqp://a:{SECRET}@b",
        "MINE": "x",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, *own, *urls, env={**os.environ, **variables},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    told = await process.stdout.readline()
    shown = shown_by_proc(process.pid)
    await process.communicate(b"")
    assert told.decode() == f"{[*own, *urls]} {SECRET}\n"
    assert SECRET.encode() not in shown
    assert all(kept in shown for kept in (b"@host/v", b"&x=1", b"plain", b"MINE=x"))


def shown_by_proc(pid: int) -> bytes:
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
