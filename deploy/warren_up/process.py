"""This process around a site: its event loop, its log, its stop signals."""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

import uvloop

from warren_broker.worker.lifecycle import calm_garbage_collector
from warren_up.site import Site

ResultT = TypeVar("ResultT")


def run(main: Coroutine[Any, Any, ResultT], site: Site) -> ResultT:
    """Run to the end. Ctrl-C and SIGTERM cancel `main` once and then raise `KeyboardInterrupt`."""
    _log_to_file(site)
    calm_garbage_collector()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        # asyncio's runner cancels on SIGINT; a service manager's SIGTERM means the same.
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            return runner.run(main)
        finally:
            signal.signal(signal.SIGTERM, before)


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


def _log_to_file(site: Site) -> None:
    """The terminal belongs to people; the log of all parts lies in the site's folder."""
    site.logs.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=site.logs / "warren.log",
        level=logging.INFO,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )
