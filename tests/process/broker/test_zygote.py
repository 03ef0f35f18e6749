"""A child that the tests fork is like one that is started as a program, and ends like it."""

import asyncio
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.forked_children import Zygote
from tests.support.patience import PATIENCE_S
from tests.support.processes import is_alive, start_program, until_dead

from warren_broker.worker.child import Child, ChildDied

MODULE = "tests.support.telling_child"
HOLDER = f"""
import asyncio
from tests.support.forked_children import Zygote
from warren_broker.worker.child import Child

async def main():
    child = await Child.spawn("the child", {MODULE!r}, execute=Zygote().execute)
    await child.receive()
    print(child.pid, flush=True)
    await child.receive()

asyncio.run(main())
"""

spawn_forked = partial(Child.spawn, execute=Zygote(MODULE).execute)
spawns = pytest.mark.parametrize("spawn", [Child.spawn, spawn_forked], ids=["program", "fork"])


async def told(child: Child) -> Any:
    return json.loads(await asyncio.wait_for(child.receive(), PATIENCE_S))


async def death_of(child: Child) -> ChildDied:
    with pytest.raises(ChildDied) as caught:
        await asyncio.wait_for(child.receive(), PATIENCE_S)
    await child.close()
    return caught.value


async def test_a_fork_is_what_the_program_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another folder, with other variables and with descriptors of which the zygote has other ones."""
    monkeypatch.setenv("PYTHONPATH", f"{Path.cwd()}:/nowhere")
    monkeypatch.setenv("NEW", "new")
    monkeypatch.delenv("HOME")
    monkeypatch.chdir(tmp_path)
    reading, writing = os.pipe()
    children = [
        await spawn("the child", MODULE, output=writing, descriptors=(reading,))
        for spawn in (Child.spawn, spawn_forked)
    ]
    program, fork = [await told(child) for child in children]
    for child in children:
        await child.close()
    os.close(reading)
    os.close(writing)
    assert fork.pop("command") == [" ".join(program.pop("command"))]
    assert fork == program


@spawns
async def test_each_way_to_end_is_heard(spawn: "partial[Any]", tmp_path: Path) -> None:
    for asked, exit_code in ((b"raise", 1), (b"exit", 3), (b"return", 0)):
        child = await spawn("the child", MODULE, log_path=tmp_path / "log")
        await told(child)
        await child.send(asked)
        assert (await death_of(child)).exit_code == exit_code
    assert "ValueError: as asked" in (tmp_path / "log").read_text()


@spawns
async def test_a_signal_is_heard(spawn: "partial[Any]") -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        child = await spawn("the child", MODULE)
        await told(child)
        os.kill(child.pid, number)
        assert (await death_of(child)).exit_code == -number


@spawns
async def test_what_it_has_started_dies_with_it(spawn: "partial[Any]") -> None:
    child = await spawn("the child", MODULE)
    await told(child)
    await child.send(b"leave")
    left = int(await asyncio.wait_for(child.receive(), PATIENCE_S))
    assert (await death_of(child)).exit_code == 0
    await until_dead(left)


@spawns
async def test_it_prints_where_this_process_does(
    spawn: "partial[Any]", capfd: pytest.CaptureFixture[str]
) -> None:
    child = await spawn("the child", MODULE)
    await told(child)
    await child.send(b"print")
    assert (await death_of(child)).exit_code == 0
    assert capfd.readouterr() == ("out ", "err ")


async def test_forks_die_with_the_process_that_has_them() -> None:
    holder = await start_program(sys.executable, "-c", HOLDER, environment=os.environ, stderr=None)
    assert holder.stdout is not None
    fork = int(await asyncio.wait_for(holder.stdout.readline(), PATIENCE_S))
    assert is_alive(fork)
    holder.kill()
    await until_dead(fork)
    await holder.wait()
