"""The fork server of a foreign package, with a program that needs no package."""

import asyncio
import os
import resource
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from warren_env_worker.foreign import virtual_environments
from warren_env_worker.foreign.conversation import MAX_LINE_BYTES, Conversation, ProcessLost
from warren_env_worker.foreign.episode import ForeignEpisode, PackageFailed
from warren_env_worker.foreign.package import Package

PROGRAM = Path(__file__).parents[2] / "support" / "foreign_program.py"
N_FILES = 40


@asynccontextmanager
async def fork_server(path: Path) -> AsyncGenerator[int]:
    command = (
        sys.executable,
        "-I",
        virtual_environments.PROGRAMS / "fork_server.py",
        path,
        PROGRAM,
        2048,
    )
    process = await asyncio.create_subprocess_exec(
        *map(str, command), str(MAX_LINE_BYTES),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.stdin.close()
        assert await process.wait() == 0


async def begun(path: Path) -> Conversation:
    conversation = await Conversation.opened(str(path))
    assert await conversation.ask({"make": {}}) == {"shown": "begun"}
    return conversation


async def told_of_more(path: Path, kept: list[Conversation]) -> str:
    """What the first one is told that there is no room for."""
    while True:
        conversation = await Conversation.opened(str(path))
        kept.append(conversation)
        answer = await conversation.ask({"make": {}})
        if "error" in answer:
            assert not answer["misfit"]
            return answer["error"]


async def test_an_episode_that_there_is_no_room_for_is_told_so_and_costs_the_others_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "socket"
    async with fork_server(path) as pid:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (N_FILES, N_FILES))
        kept: list[Conversation] = []
        for _ in range(3):
            assert "Too many open files" in await told_of_more(path, kept)
            kept.pop().close()
        assert len(kept) > N_FILES // 4
        for conversation in kept:
            assert await conversation.ask({"step": "well"}) == {"shown": "well"}
        for conversation in kept:
            conversation.close()


class Listening(Package):
    """The package behind a fork server's socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("listening", "none.py")
        self._path = path

    async def episode(self) -> Conversation:
        return await Conversation.opened(str(self._path))


async def test_an_episode_that_is_left_is_asked_for_the_last_time_where_it_lives(
    tmp_path: Path,
) -> None:
    path = tmp_path / "socket"
    left, never = tmp_path / "left", tmp_path / "never"
    async with fork_server(path):
        await ForeignEpisode(Listening(path), {}).leave(str(never))
        alive, dead = (ForeignEpisode(Listening(path), {}) for _ in range(2))
        for episode in (alive, dead):
            assert await episode.begin() == {"shown": "begun"}
        with pytest.raises(PackageFailed, match="died 3 times"):
            await dead.step("die")
        await dead.leave(str(never))
        await alive.leave(str(left))
    assert left.exists()
    assert not never.exists()


async def test_an_episode_that_is_left_in_a_step_is_not_asked_again(tmp_path: Path) -> None:
    path, never, waits = tmp_path / "socket", tmp_path / "never", tmp_path / "waits"
    os.mkfifo(waits)  # nobody reads it: the step doesn't end
    async with fork_server(path):
        episode = ForeignEpisode(Listening(path), {})
        await episode.begin()
        step = asyncio.create_task(episode.step(str(waits)))
        await asyncio.sleep(0)
        await episode.leave(str(never))
        step.cancel()
        await asyncio.wait({step})
    assert not never.exists()


async def test_a_refusal_is_heard_also_where_the_connection_is_closed_before_the_request(
    tmp_path: Path,
) -> None:
    is_closed = asyncio.Event()

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"error": "no room", "misfit": false}\n')
        writer.close()
        await writer.wait_closed()
        is_closed.set()

    async with await asyncio.start_unix_server(refuse, tmp_path / "socket"):
        conversation = await Conversation.opened(str(tmp_path / "socket"))
        await is_closed.wait()
        assert await conversation.ask({"make": {}}) == {"error": "no room", "misfit": False}
        conversation.close()


async def test_a_process_gone_is_lost_and_makes_room(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with fork_server(path):
        conversation = await begun(path)
        with pytest.raises(ProcessLost):
            await conversation.ask({"step": "die"})
        (await begun(path)).close()


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
        conversation = await Package("gymnasium", str(PROGRAM)).episode()
        told.append(await conversation.ask({"step": "order"}))
        conversation.close()
    assert told[1:] == told[:1] * 2
    assert "/of/somebody/else" not in str(told)


async def test_who_has_no_descriptor_left_does_not_take_the_other_for_dead(tmp_path: Path) -> None:
    with pytest.raises(ProcessLost):
        await Conversation.opened(str(tmp_path / "nobody"))
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with fork_server(tmp_path / "socket"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (1, usual[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                await Conversation.opened(str(tmp_path / "socket"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        (await begun(tmp_path / "socket")).close()


async def test_what_cannot_be_told_is_the_package_s_failure_and_the_process_stays(
    tmp_path: Path,
) -> None:
    async with fork_server(tmp_path / "socket"):
        conversation = await begun(tmp_path / "socket")
        for words, reason in {
            "not finite": "its reward is nan; expected a finite number",
            "half a pair": "UnicodeEncodeError",
            "no JSON": "bytes is not JSON serializable",
            "long": "it shows 5242894 bytes at once; 4194304 can be sent",
        }.items():
            answer = await conversation.ask({"step": words})
            assert reason in answer["error"]
            assert answer["misfit"] is False
        assert await conversation.ask({"step": "well"}) == {"shown": "well"}
        conversation.close()


@pytest.mark.parametrize(("trouble", "is_misfit"), [("make", True), ("begin", False)])
async def test_the_config_is_to_blame_for_what_raises_when_it_is_used_alone(
    tmp_path: Path, trouble: str, is_misfit: bool
) -> None:
    async with fork_server(tmp_path / "socket"):
        conversation = await Conversation.opened(str(tmp_path / "socket"))
        answer = await conversation.ask({"make": {"trouble": trouble}})
        assert answer["misfit"] is is_misfit
        conversation.close()
