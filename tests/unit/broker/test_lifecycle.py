"""Stopping: one signal cancels in good order, two end at once, and errors stay errors."""

import asyncio
import os
import signal

import pytest
from tests.support.patience import PATIENCE_S

from warren_broker.worker.lifecycle import until_stopped


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
