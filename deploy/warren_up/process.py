"""This process around a site: its event loop, its log, its stop signals."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from warren_broker.worker.lifecycle import calm_garbage_collector, until_stopped
from warren_up import folder
from warren_up.site import Site

ResultT = TypeVar("ResultT")


def run(main: Callable[[], Coroutine[Any, Any, ResultT]], site: Site) -> ResultT:
    """Run to the end. Ctrl-C and SIGTERM cancel `main` and then raise `KeyboardInterrupt`."""
    results: list[ResultT] = []

    async def noting() -> None:
        results.append(await main())

    folder.make(site.home)
    folder.log_into(site.log_file)
    calm_garbage_collector()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_stopped(noting()))
    if not results:
        raise KeyboardInterrupt
    return results[0]
