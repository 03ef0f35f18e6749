"""The folders of fork servers of foreign packages: none is left behind, whoever ends first and however."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.brokers import eventually
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
        stdin=pipe, stdout=pipe, cwd=ROOT,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    try:
        yield process
    finally:
        process.stdin.close()
        await process.wait()


async def test_an_owner_that_ends_leaves_none(folders: Path) -> None:
    async with owner() as process:
        (server,) = children(process.pid)
        assert len(os.listdir(folders)) == 1
    await until_dead(server)
    assert os.listdir(folders) == []


async def test_an_owner_that_is_killed_leaves_none(folders: Path) -> None:
    async with owner() as process:
        (server,) = children(process.pid)
        (episode,) = children(server)
        process.send_signal(signal.SIGKILL)
        await until_dead(server)
        await until_dead(episode)
        assert os.listdir(folders) == []


async def test_a_fork_server_that_is_killed_leaves_none(folders: Path) -> None:
    async def is_left() -> bool:
        return os.listdir(folders) == []

    async with owner() as process:
        kill_and_wait(children(process.pid))
        await eventually(is_left)
