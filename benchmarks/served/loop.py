"""One side: episodes that are live at once and step for some seconds. Needs nothing but Python."""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

Step = Callable[[], Awaitable[object]]
LoopFactory = Callable[[], asyncio.AbstractEventLoop]
Open = Callable[[AsyncExitStack, str, int], Awaitable[Step]]
"""Begins an episode at this URL, with this number, until the stack is left; its step can be taken again and again."""


def main(opened: Open, loop_factory: LoopFactory | None = None) -> None:
    """`MODULE URL EPISODES SECONDS`: prints what was measured as JSON; by the event loop of asyncio, or another."""
    url, n_live, seconds = sys.argv[1:4]
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        print(json.dumps(runner.run(_measured(opened, url, int(n_live), float(seconds)))))


async def _measured(opened: Open, url: str, n_live: int, seconds: float) -> dict[str, float]:
    took_s = list[float]()
    async with AsyncExitStack() as stack:
        steps = [await opened(stack, url, number) for number in range(n_live)]
        await asyncio.gather(*(step() for step in steps))
        began_s, cpu_s = time.perf_counter(), time.process_time()
        until_s = began_s + seconds
        await asyncio.gather(*(_play(step, until_s, took_s) for step in steps))
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    return {
        "p50_ms": statistics.median(took_s) * 1000,
        "step_ms": wall_s / len(took_s) * 1000,
        "cpu_us": cpu_s / len(took_s) * 1e6,
    }


async def _play(step: Step, until_s: float, took_s: list[float]) -> None:
    while (began_s := time.perf_counter()) < until_s:
        await step()
        took_s.append(time.perf_counter() - began_s)
