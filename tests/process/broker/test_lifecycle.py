"""Signals, to a program that is a process of its own."""

import signal
import subprocess
import sys

from tests.support.patience import PATIENCE_S

DEAF_TO_CTRL_C = """
import asyncio, signal
from warren_broker.worker.lifecycle import until_stopped

async def main():
    signal.raise_signal(signal.SIGINT)
    print("ready", flush=True)
    await asyncio.sleep(3600)

signal.signal(signal.SIGINT, signal.SIG_IGN)
asyncio.run(until_stopped(main()))
"""


STUBBORN = """
import asyncio
from warren_broker.worker.lifecycle import until_stopped

async def main():
    print("ready", flush=True)
    try:
        await asyncio.sleep(3600)
    finally:
        print("stopping", flush=True)
        await asyncio.sleep(3600)

asyncio.run(until_stopped(main()))
"""


def test_a_second_signal_ends_at_once_and_quietly() -> None:
    command = [sys.executable, "-c", STUBBORN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"stopping\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == -signal.SIGINT
        assert process.stderr.read() == b""


def test_started_to_ignore_one_signal_it_still_obeys_the_other() -> None:
    command = [sys.executable, "-c", DEAF_TO_CTRL_C]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
