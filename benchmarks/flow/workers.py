"""Env workers with the same number of live episodes for each, whose steps wait for 200 ms.

Each has twice that capacity, so that no episode waits for one that is full, and the simulated GPUs
together hold all turns.
"""

import asyncio
import time

from benchmarks.flow.place import cpu_s, draw, n_turns, site, until_live, until_none_live, walks
from tests.chaos.site import Site

from warren import Client

COUNTS = (1, 2, 4, 8, 16)
TURN_S = 2.0
"""What the policy takes for a turn."""
N_GPU_WORKERS = 4
"""Each has up to 512 turns under way."""


async def workers(live: int, seconds: float, counts: tuple[int, ...] = COUNTS) -> None:
    """`live` episodes in all at the largest of the counts."""
    each = live // max(counts)
    points: list[tuple[float, float]] = []
    gpus = site(0, n_gpu_workers=N_GPU_WORKERS, CHAOS_TURN_S=str(TURN_S))
    async with gpus as here, here.client() as client:
        for n_workers in counts:
            n_more = n_workers - len(here.of_role("env"))
            await here.add_env_workers(n_more, "--capacity", str(2 * each))
            rate, busy = await _rate(here, client, n_workers, n_workers * each, seconds)
            points.append((float(n_workers), rate / n_workers))
            print(
                f"{n_workers:2d} env workers, {n_workers * each:4d} live: {rate:7.1f} steps/s,"
                f" {rate / n_workers / points[0][1]:.3f} of one alone, {busy:.2f} cores busy"
            )
    first = points[0][1]
    draw(
        "workers",
        f"{each} live episodes for each env worker, steps of 200 ms",
        "env workers",
        "steps/s of each, 1 alone = 1",
        {"measured": [(n, rate / first) for n, rate in points], "no loss": [(1, 1), (16, 1)]},
    )


async def _rate(
    here: Site, client: Client, n_workers: int, live: int, seconds: float
) -> tuple[float, float]:
    """Steps per second of all, and cores at work, once so many episodes are live."""
    run_config = walks(
        f"workers-{n_workers}",
        steps=1_000_000,
        groups_per_step=live // 4,
        max_staleness=8,
        in_flight=live,
        n_turns=40,
        step_s=0.2,
    )
    run = await client.train(run_config)
    await until_live(client, run, 0.98 * live)
    turns, cpu, began_s = n_turns(here), sum(cpu_s(here).values()), time.monotonic()
    await asyncio.sleep(seconds)
    elapsed_s = time.monotonic() - began_s
    rate = (n_turns(here) - turns) / elapsed_s
    busy = (sum(cpu_s(here).values()) - cpu) / elapsed_s
    await run.cancel()
    await until_none_live(client)
    return rate, busy
