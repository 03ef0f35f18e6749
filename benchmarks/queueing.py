"""Jobs through queues: how runs hand a trainer over, and what a long queue costs.

    python -m benchmarks.queueing [--short 50] [--queued 1000]

Starts `warren up` on this machine (in-process broker, SQLite, one trainer). First, short runs are submitted at
once: from the end of one to the start of the next, and whether they start in the order of the queue. Then one
run keeps the trainer while many queue: latency of submitting, listing, and showing a run with its place.
"""

import argparse
import asyncio
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
from tests.support.processes import free_port
from tests.system.test_up import line_with, running, short_run, stop

import warren
from warren_schemas.config import TrainConfig

N_LOOKS = 50


def run_config(n_steps: int) -> TrainConfig:
    config = short_run().model_dump()
    config["limits"] |= {"steps": n_steps, "stop_at_reward": None}
    return TrainConfig.model_validate(config)


async def hand_over(client: warren.Client, n_runs: int) -> None:
    runs = [await client.train(run_config(1)) for _ in range(n_runs)]
    for run in runs:
        await run.result()
    views = [await run.refresh() for run in runs]
    starts = [view.started_s or 0.0 for view in views]
    ends = [view.ended_s or 0.0 for view in views]
    gaps_s = np.array(starts[1:]) - np.array(ends[:-1])
    took_s = np.array(ends) - np.array(starts)
    print(
        f"{n_runs} runs, each {np.median(took_s):.2f} s (median); in order: {starts == sorted(starts)}"
    )
    tell("from the end of one to the start of the next", gaps_s)


async def queue_many(client: warren.Client, n_runs: int) -> None:
    first = await client.train(run_config(1_000_000))
    config = run_config(1)
    latencies_s = await timed(n_runs, lambda: client.train(config))
    tell(f"submit, {n_runs} one after another", latencies_s)
    newest = (await client.runs(limit=1))[0]
    place = (await newest.refresh()).queue
    print(f"the newest is number {place.number if place else None}")
    tell("list 50", await timed(N_LOOKS, lambda: client.runs(limit=50)))
    tell("show one with its place", await timed(N_LOOKS, lambda: client.run(newest.id)))
    await first.cancel()


async def timed(n: int, ask: Callable[[], Awaitable[object]]) -> np.ndarray:
    took_s: list[float] = []
    for _ in range(n):
        began_s = time.perf_counter()
        await ask()
        took_s.append(time.perf_counter() - began_s)
    return np.array(took_s)


def tell(what: str, seconds: np.ndarray) -> None:
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    print(f"{what}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {seconds.max() * 1e3:.1f} ms")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", type=int, default=50)
    parser.add_argument("--queued", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home, port = Path(folder), free_port()
        async with running("up", "--port", str(port), home=home) as process:
            await line_with(process, "warren train")
            key = (home / "api-key").read_text()
            async with warren.connect(f"http://127.0.0.1:{port}", key) as client:
                await hand_over(client, args.short)
                await queue_many(client, args.queued)
            await stop(process, signal.SIGINT)


if __name__ == "__main__":
    asyncio.run(main())
