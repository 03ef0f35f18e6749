"""Whoever of a fork server of a foreign package and its owner ends first and however: both end, and nothing lies on the disk."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.processes import children, kill_and_wait, until_dead

from warren_env_worker.foreign import virtual_environments

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "support" / "foreign_program.py"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the owner makes them; its package is nothing but a Python."""
    monkeypatch.setenv("WARREN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "folders"))
    virtual_environments.python("gem").parent.mkdir(parents=True)
    virtual_environments.python("gem").symlink_to(sys.executable)
    virtual_environments.note_installed("gem")
    (tmp_path / "folders").mkdir()
    return tmp_path / "folders"


@asynccontextmanager
async def owner() -> AsyncGenerator[asyncio.subprocess.Process]:
    """One that plays an episode."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.foreign_owner", PROGRAM),
        stdin=pipe, stdout=pipe, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    try:
        yield process
    finally:
        process.stdin.close()
        await process.wait()


async def test_a_fork_server_and_its_episodes_end_with_their_owner(folders: Path) -> None:
    async with owner() as process:
        (server,) = children(process.pid)
        (episode,) = children(server)
        assert os.listdir(folders) == []
    await until_dead(server)
    await until_dead(episode)


@pytest.mark.parametrize("is_together", [False, True])
async def test_a_killed_owner_leaves_nothing(folders: Path, is_together: bool) -> None:
    """Its supervisor kills a whole process group."""
    async with owner() as process:
        (server,) = children(process.pid)
        (episode,) = children(server)
        if is_together:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.send_signal(signal.SIGKILL)
        await until_dead(server)
        await until_dead(episode)
        assert os.listdir(folders) == []


async def test_a_killed_fork_server_leaves_nothing(folders: Path) -> None:
    async with owner() as process:
        (server,) = children(process.pid)
        (episode,) = children(server)
        kill_and_wait([server])
        await until_dead(episode)
        assert os.listdir(folders) == []
