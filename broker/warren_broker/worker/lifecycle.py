"""Stopping in good order: SIGTERM and Ctrl-C cancel the program's main task once."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any


async def until_stopped(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` until it ends or a stop signal comes; then cancel it and wait for it.

    `main` must hand back what it holds when it is cancelled. A second signal is left to the default
    handler, which ends the process at once.
    """
    task = asyncio.create_task(main, name="main")
    loop = asyncio.get_running_loop()

    def stop(signum: int) -> None:
        loop.remove_signal_handler(signum)
        task.cancel()

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop, signum)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    finally:
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(signum)
