"""The in-process broker's streams, when the process is killed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.support.brokers import read_all

from warren_broker.memory import open_memory
from warren_broker.topology import Stream

ROOT = Path(__file__).parents[3]


LOG = Stream("log")


async def test_kill_9_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    confirmed = await asyncio.to_thread(append_and_be_killed, tmp_path)
    async with open_memory(tmp_path) as broker:
        assert await read_all(broker, LOG, confirmed + 1) == [(i, i) for i in range(confirmed + 1)]


def append_and_be_killed(folder: Path) -> int:
    """Run a process that appends, kill it in the middle; the last number that was confirmed."""
    command = [sys.executable, "-m", "tests.support.appender", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    confirmed = -1
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while confirmed < 500:
            confirmed = int(process.stdout.readline())
        process.kill()
        whole_lines = process.stdout.read().split(b"\n")[:-1]
    return max([confirmed, *map(int, whole_lines)])
