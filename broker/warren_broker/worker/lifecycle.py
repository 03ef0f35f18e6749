"""Stops on a signal, and leaves the garbage collector little to do."""

import asyncio
import gc
import signal
from collections.abc import Coroutine

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
GC_THRESHOLDS = (500_000, 10, 20)
"""Items are thousands of small objects without cycles that live for one turn of an episode or a
little longer. At the defaults (700, 10, 10) the collector takes half of a busy worker's time and stops
it for 50 ms at a time; here it looks only when half a million more objects were made than freed."""


async def until_stopped(main: Coroutine[object, None, None]) -> None:
    """Run `main` until it ends or a stop signal comes; then cancel it and wait for it.

    `main` must hand back what it holds when it is cancelled. A second signal ends the process at
    once. A signal that the process was started to ignore, as shells do for Ctrl-C in the
    background, stays ignored. Raises what `main` raises.
    """
    task = asyncio.create_task(main, name="main")
    loop = asyncio.get_running_loop()
    was_told = asyncio.Event()
    signals = [each for each in STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]

    def stop() -> None:
        was_told.set()
        for signum in signals:
            loop.remove_signal_handler(signum)
            signal.signal(signum, signal.SIG_DFL)
        task.cancel()

    for signum in signals:
        loop.add_signal_handler(signum, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not was_told.is_set():
            raise
    finally:
        for signum in signals:
            loop.remove_signal_handler(signum)


def calm_garbage_collector() -> None:
    """Call it once, when everything is imported: what is there now is never looked at again."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
