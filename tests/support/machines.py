"""Machines that meet to sample, as threads of this process."""

import asyncio
import logging
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET, create_connection, socket
from struct import pack

from tests.support.patience import PATIENCE_S
from tests.support.processes import free_port

from warren_gpu_worker.sampler.engines.vllm.rendezvous import Gathered, join, own_hello
from warren_gpu_worker.sampler.supervisor import child_process
from warren_gpu_worker.settings import GpuWorkerSettings

BASE = "base"


def spread_settings(folder: Path, n_machines: int = 2, **fields: object) -> GpuWorkerSettings:
    """Of a sampler on so many machines, each with one GPU of it."""
    return GpuWorkerSettings.model_validate(
        {
            "base_models": {BASE: str(folder)},
            "roles": ["sampler"],
            "machines": n_machines,
            "rendezvous": f"127.0.0.1:{free_port()}",
            "vllm": {"tensor_parallel": n_machines},
            "device": "cpu",
            **fields,
        }
    )


class Others:
    """Other machines, which have joined or are about to."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(thread_name_prefix="machine")
        self._joined: list[Future[Gathered]] = []

    def join(self, settings: GpuWorkerSettings) -> "Future[Gathered]":
        joined = self._threads.submit(join, settings.model_copy(update={"join": True}))
        self._joined.append(joined)
        return joined

    def close(self) -> None:
        for joined in self._joined:
            if joined.exception(PATIENCE_S) is None:
                leave(joined.result())
        self._threads.shutdown()


def raw_machine(settings: GpuWorkerSettings, said: str = "") -> socket:
    """One that has said this, or else what it has, and does nothing more."""
    assert settings.rendezvous_address is not None
    connection = create_connection(settings.rendezvous_address)
    line = said or own_hello(settings).model_dump_json()
    connection.sendall(line.encode() + b"\n")
    return connection


def abort(connection: socket) -> None:
    """Close it by a reset: whoever sends there learns at once that it is gone."""
    connection.setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
    connection.close()


def leave(machine: Gathered) -> None:
    for connection in machine.others:
        connection.close()


class MissingTold(logging.Handler):
    """Hears from the supervisor of a sampler that machines are missing."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        if "machines still missing" in record.getMessage():
            self.heard.put_nowait(record.getMessage())


@contextmanager
def missing_told() -> Generator[MissingTold]:
    """What is told from now on."""
    handler, log = MissingTold(), logging.getLogger(child_process.__name__)
    log.addHandler(handler)
    try:
        yield handler
    finally:
        log.removeHandler(handler)
