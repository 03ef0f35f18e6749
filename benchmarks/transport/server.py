"""The other end as a process of its own: `python -m benchmarks.transport.server URL RUN`.

Prints one line when it is ready.
"""

import asyncio
import sys
from urllib.parse import urlsplit

import uvloop
from benchmarks.transport import over_http
from benchmarks.transport.over_broker import Route, play_env_worker

from warren_broker.connect import open_broker
from warren_broker.worker.lifecycle import calm_garbage_collector


async def serve_broker(url: str, run: str) -> None:
    ready = asyncio.Event()
    async with open_broker(url, name="benchmark server") as broker, asyncio.TaskGroup() as tasks:
        tasks.create_task(play_env_worker(broker, Route.of(run), ready), name="env worker")
        await ready.wait()
        print("ready", flush=True)


async def serve_http(port: int) -> None:
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(over_http.serve(port, ready), name="http")
        await ready.wait()
        print("ready", flush=True)


def main(url: str, run: str) -> None:
    calm_garbage_collector()
    parts = urlsplit(url)
    if parts.scheme == "http":
        uvloop.run(serve_http(parts.port or 80))
    else:
        uvloop.run(serve_broker(url, run))


if __name__ == "__main__":
    main(*sys.argv[1:])
