"""A box in the place of a container: commands, files and limits, asked as the programs of foreign packages do."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.processes import children, kill_and_wait

from warren_env_worker.foreign.box.bubblewrap import isolation
from warren_env_worker.foreign.programs.box import Box, BoxLost, Ended, packed_as
from warren_schemas.isolation.agent_box import Box as Limits

pytestmark = pytest.mark.server
SMALL = Limits(memory_mib=96, processes=12)
EATER = "x = bytearray(1 << 30); x[::4096] = b'a' * len(x[::4096]); print(len(x))"
CROWD = """
import os, time
for n in range(100):
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except BlockingIOError:
        print("full")
        break
"""
SPY = """
import os, socket
def refused(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return True
print(
    refused(open, "/usr/new", "w"),
    refused(open, "/dev/new", "w"),
    refused(os.readlink, "/proc/1/fd/0"),
    refused(socket.socket, socket.AF_VSOCK),
    refused(os.chroot, "/usr"),
    [name for _, name in socket.if_nameindex()] == ["lo"],
    os.getuid() == 0,
)
"""


@pytest.fixture
async def box() -> AsyncGenerator[Box]:
    begun = await Box.begun(isolation(SMALL, disk_mib=8))
    yield begun
    await begun.close()


async def bash(box: Box, command: str, limit_s: float | None = None) -> Ended:
    return await box.run(["bash", "-c", command], limit_s=limit_s)


async def test_what_commands_write_and_leave_running_is_there_for_the_next(box: Box) -> None:
    assert await bash(box, "mkdir /app; cd /app; echo 7 > a; cat >&2 a; exit 3") == Ended(
        3, b"", b"7\n", is_late=False
    )
    assert (await bash(box, "sleep 1000 & cat /app/a")).output == b"7\n"
    assert (await bash(box, "cat /proc/[0-9]*/comm | grep -c sleep")).output == b"1\n"


async def test_files_go_in_and_out(box: Box, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("echo ran")
    (tmp_path / "run.sh").chmod(0o755)
    await box.put(packed_as(".", tmp_path), "/tests")
    assert (await box.run(["/bin/sh", "/tests/run.sh"])).output == b"ran\n"
    content = bytes(range(256)) * 4096
    await box.write("/data/b", content)
    assert await box.content("/data/b") == content
    with pytest.raises(OSError, match="No such file"):
        await box.content("/data/c")


async def test_commands_run_side_by_side_and_end_when_nobody_waits(box: Box) -> None:
    slow = asyncio.create_task(bash(box, "echo $$ > /pid; exec sleep 1000"))
    while not (await bash(box, "cat /pid 2>/dev/null")).output:
        pass
    slow.cancel()
    await asyncio.wait({slow})
    while (await bash(box, "kill -0 $(cat /pid)")).status == 0:
        pass
    late = await bash(box, "sleep 1000", limit_s=0.1)
    assert (late.status, late.is_late) == (137, True)


async def test_it_has_walls(box: Box) -> None:
    ended = await box.run(["python3", "-c", SPY])
    assert ended.output.decode().split() == ["True"] * 7, ended


async def test_it_has_limits_and_goes_on(box: Box) -> None:
    assert (await box.run(["python3", "-c", EATER])).status == 137
    assert b"No space left" in (await bash(box, "yes > /big; rm /big")).errors
    assert (await box.run(["python3", "-c", CROWD])).output == b"full\n"
    assert (await bash(box, "echo well")).output == b"well\n"


async def test_one_that_is_lost_fails_what_is_asked(box: Box) -> None:
    asked = asyncio.create_task(bash(box, "echo begun > /begun; sleep 1000"))
    while (await bash(box, "cat /begun")).status != 0:
        pass
    kill_and_wait(children(box.pid))
    with pytest.raises(BoxLost):
        await asked
    with pytest.raises(BoxLost):
        await bash(box, "echo well")
