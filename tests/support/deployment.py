"""A deployment of real processes: gateway, GPU worker, env workers, each with its own log."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.built_models import share_models
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.private_postgres import PrivatePostgres, patient_database
from tests.support.processes import end, free_port, listens, spawn, wait_until

import warren
from warren import Client


@dataclass
class Site:
    """The processes of one deployment, each with its own log."""

    home: Path
    broker: str
    store: str | None
    port: int = field(default_factory=free_port)
    processes: dict[str, "subprocess.Popen[bytes]"] = field(
        default_factory=dict[str, "subprocess.Popen[bytes]"]
    )
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, name: str, *arguments: str) -> None:
        share_models(self.home)
        self.commands[name] = arguments
        variables = {**os.environ, "WARREN_BROKER_URL": self.broker, "WARREN_HOME": str(self.home)}
        if self.store:
            variables["WARREN_STORE_URL"] = self.store
        self.processes[name] = spawn(
            [sys.executable, "-m", "warren", *arguments],
            log_path=self.log(name),
            environment=variables,
        )

    async def start_all(self) -> None:
        await self.start_gateway()
        self.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
        self.start("env-1", "env-worker")
        self.start("env-2", "env-worker")

    def start_missing(self) -> None:
        """Those that a test has killed."""
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                self.start(name, *self.commands[name])

    async def start_gateway(self) -> None:
        self.start("gateway", "gateway", "--port", str(self.port))
        await asyncio.to_thread(
            wait_until,
            self.is_listening,
            self.processes["gateway"],
            deadline_s=PATIENCE_S,
            log_path=self.log("gateway"),
        )

    def start_remote(self, name: str, *arguments: str, api_key: str, folder: Path) -> None:
        """An env worker that knows the gateway's address and nothing of a broker or a store."""
        hidden = ("WARREN_BROKER_URL", "WARREN_STORE_URL", "WARREN_HOME")
        variables = {k: v for k, v in os.environ.items() if k not in hidden}
        variables |= {"WARREN_API_KEY": api_key, "WARREN_HOME": str(folder / "nothing")}
        self.processes[name] = spawn(
            [sys.executable, "-m", "warren", "env-worker", "--gateway", self.url, *arguments],
            log_path=self.log(name),
            environment=variables,
            folder=folder,
        )

    async def kill(self, name: str) -> None:
        self.processes[name].kill()
        await asyncio.to_thread(self.processes[name].wait)

    def is_listening(self) -> bool:
        return listens(self.port)

    def log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def stop(self) -> None:
        for process in self.processes.values():
            end(process, signal.SIGTERM, grace_s=STOP_S)


def store_of(request: pytest.FixtureRequest) -> str | None:
    """The store that a fixture's parameter names; None is SQLite in the site's folder."""
    if request.param == "sqlite":
        return None
    server: PrivatePostgres = request.getfixturevalue("postgres_server")
    return patient_database(server)


@contextmanager
def whole_site(folder: Path, broker: str, store: str | None) -> Generator[Site]:
    """All parts, until the end of whoever shares them."""
    site = Site(folder, broker, store)
    try:
        asyncio.run(site.start_all())
        yield site
    finally:
        site.stop()


@asynccontextmanager
async def connected(site: Site, key: str | None = None) -> AsyncGenerator[Client]:
    """Its first user, or whose key it is."""
    own = (site.home / "api-key").read_text().strip()
    async with warren.connect(site.url, api_key=key or own) as client:
        yield client
