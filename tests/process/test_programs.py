"""A program that a test started ends with the test, and so does what the program started."""

import os
import signal

from tests.support.processes import is_alive, kill_programs, start_program, until_dead


async def test_what_a_failed_test_left_behind_is_killed_with_its_children() -> None:
    process = await start_program(
        "bash", "-c", "sleep 3600 & echo $!; wait", environment=os.environ
    )
    assert process.stdout is not None
    below = int(await process.stdout.readline())
    assert is_alive(below)
    kill_programs()
    await until_dead(below)
    assert await process.wait() == -signal.SIGKILL
