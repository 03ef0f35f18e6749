"""The fork server of a foreign package, with a program that needs no package."""

import asyncio
import os
import resource
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from warren_env_worker.foreign import virtual_environments
from warren_env_worker.foreign.channel import Channel
from warren_env_worker.foreign.episode import ForeignEpisode, PackageFailed
from warren_env_worker.foreign.package import Package
from warren_env_worker.foreign.package_process import MAX_LINE_BYTES, PackageProcess, ProcessLost

PROGRAM = Path(__file__).parents[2] / "support" / "foreign_program.py"
N_FILES = 40


class Server:
    def __init__(self, channel: Channel, process: asyncio.subprocess.Process) -> None:
        self.channel = channel
        self.process = process


@asynccontextmanager
async def fork_server() -> AsyncGenerator[Server]:
    program = virtual_environments.PROGRAMS / "fork_server.py"
    command = (sys.executable, "-I", program, PROGRAM, 2048, MAX_LINE_BYTES)
    channel = Channel()
    with channel.theirs as theirs:
        process = await asyncio.create_subprocess_exec(
            *map(str, command), stdin=theirs.fileno(), stdout=asyncio.subprocess.PIPE
        )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield Server(channel, process)
    finally:
        channel.close()
        assert await process.wait() == 0


async def begun(channel: Channel) -> PackageProcess:
    process = await PackageProcess.opened(channel)
    assert await process.ask({"make": {}}) == {"shown": "begun"}
    return process


async def told_of_more(channel: Channel, kept: list[PackageProcess]) -> str:
    """What the first one is told that there is no room for."""
    while True:
        process = await PackageProcess.opened(channel)
        kept.append(process)
        answer = await process.ask({"make": {}})
        if "error" in answer:
            assert not answer["misfit"]
            return answer["error"]


async def test_an_episode_that_there_is_no_room_for_is_told_so_and_costs_the_others_nothing() -> (
    None
):
    async with fork_server() as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (N_FILES, N_FILES))
        kept: list[PackageProcess] = []
        for _ in range(3):
            assert "Too many open files" in await told_of_more(server.channel, kept)
            kept.pop().close()
        assert len(kept) > N_FILES // 4
        for process in kept:
            assert await process.ask({"step": "well"}) == {"shown": "well"}
        for process in kept:
            process.close()


class Started(Package):
    """The package of a fork server that is there."""

    def __init__(self, server: Server) -> None:
        super().__init__("started", "none.py")
        self._channel = server.channel

    async def episode(self) -> PackageProcess:
        return await PackageProcess.opened(self._channel)


async def test_an_episode_that_is_left_is_asked_for_the_last_time_where_it_lives(
    tmp_path: Path,
) -> None:
    left, never = tmp_path / "left", tmp_path / "never"
    async with fork_server() as server:
        await ForeignEpisode(Started(server), {}).leave(str(never))
        alive, dead = (ForeignEpisode(Started(server), {}) for _ in range(2))
        for episode in (alive, dead):
            assert await episode.begin() == {"shown": "begun"}
        with pytest.raises(PackageFailed, match="died 3 times"):
            await dead.step("die")
        await dead.leave(str(never))
        await alive.leave(str(left))
    assert left.exists()
    assert not never.exists()


async def test_an_episode_that_is_left_in_a_step_is_not_asked_again(tmp_path: Path) -> None:
    never, waits = tmp_path / "never", tmp_path / "waits"
    os.mkfifo(waits)  # nobody reads it: the step doesn't end
    async with fork_server() as server:
        episode = ForeignEpisode(Started(server), {})
        await episode.begin()
        step = asyncio.create_task(episode.step(str(waits)))
        await asyncio.sleep(0)
        await episode.leave(str(never))
        step.cancel()
        await asyncio.wait({step})
    assert not never.exists()


async def test_a_refusal_is_heard_also_where_the_connection_is_closed_before_the_request() -> None:
    channel = Channel()
    process = await PackageProcess.opened(channel)
    _, descriptors, _, _ = socket.recv_fds(channel.theirs, 1, 1)
    with socket.socket(fileno=descriptors[0]) as theirs:
        theirs.sendall(b'{"error": "no room", "misfit": false}\n')
    assert await process.ask({"make": {}}) == {"error": "no room", "misfit": False}
    process.close()
    channel.close()


async def test_a_process_gone_is_lost_and_makes_room() -> None:
    async with fork_server() as server:
        process = await begun(server.channel)
        with pytest.raises(ProcessLost):
            await process.ask({"step": "die"})
        (await begun(server.channel)).close()


async def test_sets_of_texts_have_one_order_in_every_fork_server_and_pythonpath_is_not_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "/of/somebody/else")
    virtual_environments.python("gymnasium").parent.mkdir(parents=True)
    virtual_environments.python("gymnasium").symlink_to(sys.executable)
    virtual_environments.note_installed("gymnasium")
    told: list[object] = []
    for _ in range(3):
        process = await Package("gymnasium", str(PROGRAM)).episode()
        told.append(await process.ask({"step": "order"}))
        process.close()
    assert told[1:] == told[:1] * 2
    assert "/of/somebody/else" not in str(told)


async def test_who_has_no_descriptor_left_does_not_take_the_other_for_dead() -> None:
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with fork_server() as server:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1, usual[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                await PackageProcess.opened(server.channel)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        (await begun(server.channel)).close()


async def test_a_fork_server_that_is_gone_takes_no_connection() -> None:
    channel = Channel()
    channel.theirs.close()
    with pytest.raises(ProcessLost):
        await PackageProcess.opened(channel)
    channel.close()


async def test_what_cannot_be_told_is_the_package_s_failure_and_the_process_stays() -> None:
    async with fork_server() as server:
        process = await begun(server.channel)
        for words, reason in {
            "not finite": "its reward is nan; expected a finite number",
            "half a pair": "UnicodeEncodeError",
            "no JSON": "bytes is not JSON serializable",
            "long": "it shows 5242894 bytes at once; 4194304 can be sent",
        }.items():
            answer = await process.ask({"step": words})
            assert reason in answer["error"]
            assert answer["misfit"] is False
        assert await process.ask({"step": "well"}) == {"shown": "well"}
        process.close()


@pytest.mark.parametrize(("trouble", "is_misfit"), [("make", True), ("begin", False)])
async def test_the_config_is_to_blame_for_what_raises_when_it_is_used_alone(
    trouble: str, is_misfit: bool
) -> None:
    async with fork_server() as server:
        process = await PackageProcess.opened(server.channel)
        answer = await process.ask({"make": {"trouble": trouble}})
        assert answer["misfit"] is is_misfit
        process.close()
