"""This process around a site: its event loop, its log, its stop signals."""

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

import uvloop

from warren_up import folder
from warren_up.site import Site

GC_THRESHOLDS = (10_000, 20, 50)
"""Episodes make thousands of short-lived objects a second; at Python's defaults the collector looks
through all of them far too often."""

ResultT = TypeVar("ResultT")


def run(main: Callable[[], Coroutine[Any, Any, ResultT]], site: Site) -> ResultT:
    """Run to the end. Ctrl-C and SIGTERM cancel `main` once and then raise `KeyboardInterrupt`."""
    folder.make(site.home)
    folder.log_into(site.log_file)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        # asyncio's runner cancels on SIGINT; a service manager's SIGTERM means the same.
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            return runner.run(main())
        finally:
            signal.signal(signal.SIGTERM, before)


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)
