"""Stopping: one signal cancels in good order, two end at once, and errors stay errors."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from warren_broker.worker.lifecycle import until_stopped

PATIENCE_S = 100.0

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


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_cancels_main_and_waits_for_it(signum: signal.Signals) -> None:
    told: list[str] = []

    async def main() -> None:
        os.kill(os.getpid(), signum)
        try:
            await asyncio.sleep(PATIENCE_S)
        finally:
            await asyncio.sleep(0)
            told.append("handed back")

    await until_stopped(main())
    assert told == ["handed back"]
    restore()


def restore() -> None:
    """pytest wants its Ctrl-C back."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


async def test_main_may_end_by_itself() -> None:
    async def main() -> None:
        await asyncio.sleep(0)

    await until_stopped(main())
    restore()


async def test_an_error_of_main_is_raised() -> None:
    async def main() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await until_stopped(main())
    restore()


async def test_being_cancelled_is_not_being_stopped() -> None:
    async def main() -> None:
        await asyncio.sleep(PATIENCE_S)

    task = asyncio.create_task(until_stopped(main()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    restore()


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
