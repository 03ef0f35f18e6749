"""Jobs through queues: how runs hand a trainer over, and what a long queue costs.

    python -m benchmarks.queueing [--short 50] [--queued 1000] [--rabbitmq]

Starts `warren up` on this machine (in-process broker, SQLite, one trainer), or each part by itself with RabbitMQ. First, short runs are submitted at
once: from the end of one to the start of the next, and whether they start in the order of the queue. Then many
queue behind one that has the trainer: latency of submitting, listing, and showing a run with its place, each beside
that of an answer that touches nothing (404), which shows how busy the gateway's process is. Asked before anything
trains, while one run trains, while all the others are queued, and when the trainer is drained, so that they are
queued and nothing trains: as where the GPUs are on other machines, for what trains here wants the same processors.
"""

import argparse
import asyncio
import contextlib
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import numpy as np
from sqlmodel import Session, create_engine, select
from tests.support.deployment import Site
from tests.support.private_rabbit import running_rabbit
from tests.support.processes import free_port
from tests.system.test_up import line_with, running, short_run, stop

import warren
from warren_gateway.store.tables import Model
from warren_schemas.config import TrainConfig
from warren_schemas.control import WorkerRole
from warren_schemas.events import RunState, StepCompleted

N_LOOKS = 50
N_WARM_STEPS = 5
N_ROLES = 3
"""Of workers at the least."""


def run_config(n_steps: int) -> TrainConfig:
    config = short_run().model_dump()
    config["limits"] |= {"steps": n_steps, "stop_at_reward": None}
    return TrainConfig.model_validate(config)


async def hand_over(client: warren.Client, n_runs: int, home: Path) -> None:
    runs = [await client.train(run_config(1)) for _ in range(n_runs)]
    for run in runs:
        await run.result()
    views = [await run.refresh() for run in runs]
    starts = [view.started_s or 0.0 for view in views]
    ends = [view.ended_s or 0.0 for view in views]
    gaps_s = np.array(starts[1:]) - np.array(ends[:-1])
    took_s = np.array(ends) - np.array(starts)
    with Session(create_engine(f"sqlite:///{home / 'warren.db'}")) as session:
        n_messages = sum(session.exec(select(Model.epoch)))  # each is for an epoch of its own
    print(
        f"{n_runs} runs, each {np.median(took_s):.2f} s (median); in order: {starts == sorted(starts)};"
        f" {n_messages} job messages"
    )
    tell("from the end of one to the start of the next", gaps_s)
    granted = [next(e.at_s for e in v.history if e.state is RunState.STARTING) for v in views]
    tell("of that until a trainer has the next", np.array(granted[1:]) - np.array(ends[:-1]))


async def queue_many(client: warren.Client, url: str, n_runs: int) -> None:
    await tell_latencies(client, url, "nothing trains, nothing is queued")
    first = await client.train(run_config(1_000_000))
    await until_trained(first)
    await tell_latencies(client, url, "one trains, nothing is queued")
    config = run_config(1)
    latencies_s = await timed(n_runs, lambda: client.train(config))
    tell(f"submit, {n_runs} one after another", latencies_s)
    newest = (await client.runs(limit=1))[0]
    place = (await newest.refresh()).queue
    print(f"the newest is number {place.number if place else None}")
    await tell_latencies(client, url, f"one trains, {n_runs} are queued")
    for worker in await client.workers():
        if worker.role == WorkerRole.TRAINER:
            await client.access.drain_worker(worker.id)
    await first.cancel()
    with contextlib.suppress(warren.RunCancelled):
        await first.result()
    await tell_latencies(client, url, f"nothing trains, {n_runs} are queued")


async def until_trained(run: warren.Run) -> None:
    """Past its supervised steps and its first evaluation."""
    async for event in run.events():
        if isinstance(event.body, StepCompleted) and event.body.updates >= N_WARM_STEPS:
            return


async def tell_latencies(client: warren.Client, url: str, when: str) -> None:
    newest = (await client.runs(limit=1))[0]
    print(f"{when}:")
    async with aiohttp.ClientSession() as session:
        tell("  404", await timed(N_LOOKS, lambda: answered(session, f"{url}/nothing")))
    tell("  list 50", await timed(N_LOOKS, lambda: client.runs(limit=50)))
    tell("  show one with its place", await timed(N_LOOKS, lambda: client.run(newest.id)))


async def answered(session: aiohttp.ClientSession, url: str) -> None:
    async with session.get(url) as response:
        await response.read()


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
    parser.add_argument("--rabbitmq", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        async with (
            (several_processes if args.rabbitmq else one_process)(home) as url,
            warren.connect(url, (home / "api-key").read_text().strip()) as client,
        ):
            await until_offered(client)
            await hand_over(client, args.short, home)
            if args.queued:
                await queue_many(client, url, args.queued)


@asynccontextmanager
async def one_process(home: Path) -> AsyncGenerator[str]:
    """The URL of `warren up`."""
    port = free_port()
    async with running("up", "--port", str(port), home=home) as process:
        await line_with(process, "warren train")
        yield f"http://127.0.0.1:{port}"
        await stop(process, signal.SIGINT)


@asynccontextmanager
async def several_processes(home: Path) -> AsyncGenerator[str]:
    """The URL of a gateway with a GPU worker and two env workers."""
    with running_rabbit() as node:
        site = Site(home, node.url, None)
        try:
            await site.start_all()
            yield site.url
        finally:
            await asyncio.to_thread(site.stop)


async def until_offered(client: warren.Client) -> None:
    while sum(bool(worker.offers) for worker in await client.workers()) < N_ROLES:  # noqa: ASYNC110
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(main())
