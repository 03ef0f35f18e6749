"""This process around a site: its event loop, its log, its stop signals."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

import uvloop

from warren_broker.worker.lifecycle import calm_garbage_collector
from warren_up import folder
from warren_up.site import Site

ResultT = TypeVar("ResultT")


def run(main: Callable[[], Coroutine[Any, Any, ResultT]], site: Site) -> ResultT:
    """Run to the end. Ctrl-C and SIGTERM cancel `main` once and then raise `KeyboardInterrupt`."""
    folder.make(site.home)
    folder.log_into(site.log_file)
    calm_garbage_collector()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        # asyncio's runner cancels on SIGINT; a service manager's SIGTERM means the same.
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            return runner.run(main())
        finally:
            signal.signal(signal.SIGTERM, before)


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)
