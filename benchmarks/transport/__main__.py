"""Run the comparison: `python -m benchmarks.transport --in-flight 1,16,128 --rounds 3 --seconds 4`.

It starts a RabbitMQ node of its own and stops it again.
"""

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from statistics import median

import uvloop
from benchmarks.transport import over_http
from benchmarks.transport.load import Figures, RoundTrip, measure
from benchmarks.transport.over_broker import Route, play_env_worker, sampler
from rich.console import Console
from rich.table import Table
from tests.support.private_rabbit import PrivateRabbit, running_rabbit
from tests.support.processes import free_port

from warren_broker.connect import open_broker
from warren_broker.memory import open_hub
from warren_broker.worker.lifecycle import calm_garbage_collector
from warren_schemas.ids import new_id

IN_PROCESS, RABBITMQ, HTTP, BARE_HTTP = "in-process", "RabbitMQ", "HTTP", "HTTP, bare dicts"


@asynccontextmanager
async def in_process() -> AsyncGenerator[RoundTrip]:
    """Both ends in this process."""
    ready = asyncio.Event()
    async with open_hub() as hub:
        route = Route.of("here")
        async with asyncio.TaskGroup() as tasks:
            worker = tasks.create_task(play_env_worker(hub.client("env worker"), route, ready))
            await ready.wait()
            async with sampler(hub.client("sampler"), route) as round_trip:
                yield round_trip
            worker.cancel()


@contextmanager
def server(url: str, run: str = "") -> Generator[int]:
    """The other end in a process of its own; its pid."""
    command = [sys.executable, "-m", "benchmarks.transport.server", url, run]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise SystemExit(f"the server for {url} did not start")
            yield process.pid
        finally:
            process.kill()


async def run_in_process(n_in_flight: int, seconds: float) -> Figures:
    pids = {"both ends": os.getpid()}
    async with in_process() as round_trip:
        return await measure(round_trip, n_in_flight=n_in_flight, seconds=seconds, pids=pids)


async def run_rabbitmq(n_in_flight: int, seconds: float, node: PrivateRabbit) -> Figures:
    run = new_id("run")
    with server(node.url, run) as server_pid:
        pids = {"client": os.getpid(), "server": server_pid, "broker": node.process.pid}
        async with (
            open_broker(node.url, name="benchmark client") as broker,
            sampler(broker, Route.of(run)) as round_trip,
        ):
            return await measure(round_trip, n_in_flight=n_in_flight, seconds=seconds, pids=pids)


async def run_http(n_in_flight: int, seconds: float, *, typed: bool = True) -> Figures:
    port = free_port()
    with server(f"http://127.0.0.1:{port}") as server_pid:
        pids = {"client": os.getpid(), "server": server_pid}
        async with over_http.client(port, typed=typed) as round_trip:
            return await measure(round_trip, n_in_flight=n_in_flight, seconds=seconds, pids=pids)


Rounds = dict[str, list[Figures]]
"""What each transport did under one load, round by round."""


def rounds_of(load: int, seconds: float, n_rounds: int, node: PrivateRabbit) -> Rounds:
    """All transports in turn, again and again: a machine that slows down slows down all of them."""
    rounds: Rounds = {IN_PROCESS: [], RABBITMQ: [], HTTP: [], BARE_HTTP: []}
    for _ in range(n_rounds):
        for run, name in (
            (run_http(load, seconds), HTTP),
            (run_rabbitmq(load, seconds, node), RABBITMQ),
            (run_in_process(load, seconds), IN_PROCESS),
            (run_http(load, seconds, typed=False), BARE_HTTP),
        ):
            rounds[name].append(uvloop.run(run))
    return rounds


def add_rows(shown: Table, rounds: Rounds) -> None:
    """One row for each transport: medians over the rounds, also of the ratios within a round."""
    for transport, rows in rounds.items():
        pairs = list(zip(rows, rounds[HTTP], strict=True))
        names = rows[0].cpu_us
        cpu_us = {name: median(row.cpu_us[name] for row in rows) for name in names}
        shown.add_row(
            transport,
            str(rows[0].n_in_flight),
            f"{median(row.p50_ms for row in rows):.2f}",
            f"{median(row.p99_ms for row in rows):.2f}",
            f"{median(row.steps_per_s for row in rows):,.0f}",
            " + ".join(f"{us:.0f} {name}" for name, us in cpu_us.items()),
            f"{median(row.steps_per_s / http.steps_per_s for row, http in pairs):.2f}",
            f"{median(row.p50_ms / http.p50_ms for row, http in pairs):.2f}",
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.transport", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each transport and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-flight", default="1,16,128")
    options = parser.parse_args()
    calm_garbage_collector()
    shown = Table(title="env-step round trips, client and server on this machine")
    for column in ("transport", "in flight", "p50 ms", "p99 ms", "steps/s", "CPU µs/step"):
        shown.add_column(column, justify="left" if column == "transport" else "right")
    shown.add_column("steps/s : HTTP", justify="right")
    shown.add_column("p50 : HTTP", justify="right")
    with running_rabbit() as node:
        for load in map(int, options.in_flight.split(",")):
            add_rows(shown, rounds_of(load, options.seconds, options.rounds, node))
    Console(width=140).print(shown)


if __name__ == "__main__":
    main()
