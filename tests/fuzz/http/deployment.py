"""`warren up` in a folder of its own, with a client."""

import asyncio
import re
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.processes import descendants, end, free_port, spawn

import warren
from warren_schemas.ids import RunId

CONFIG = {
    "model": {"base": "warren/tiny"},
    "environments": [{"name": "guess"}],
    "limits": {"steps": 1},
}
EVERY_REQUEST_PER_S = 1_000_000
"""A request that is refused for coming too soon has tried nothing."""
RUN_S = 300.0
"""A run of one step takes seconds; this is for a machine with much else to do."""


@dataclass
class Deployment:
    url: str
    key: str
    pid: int
    client: warren.Client
    home: Path

    async def complete(self, name: str) -> warren.Run:
        """Raises where the run does not complete in time."""
        async with asyncio.timeout(PATIENCE_S):
            run = await self.client.train({**CONFIG, "name": name})
            await run.result()
            return run

    async def cancel_all(self, kept: RunId) -> None:
        """End what was begun and has not ended: hundreds of runs that wait for workers that nobody has."""
        for run in await self.client.runs(limit=500):
            if not run.state.is_final and run.id != kept:
                await run.cancel()

    async def undrain_all(self) -> None:
        """Workers that take no work would keep every run waiting."""
        for worker in await self.client.workers():
            if worker.is_draining:
                await self.client.access.drain_worker(worker.id, undo=True)

    def tracebacks(self) -> str:
        """What the gateway logged of errors that nobody foresaw."""
        log = (self.home / "logs" / "warren.log").read_text()
        return "\n".join(
            re.findall(r"^\d.* ERROR .*\nTraceback(?:.*\n)+?(?=\d{4}-|\Z)", log, re.MULTILINE)
        )

    def processes(self) -> set[int]:
        return {self.pid, *descendants(self.pid)}


@asynccontextmanager
async def deployed() -> AsyncGenerator[Deployment]:
    """Raises where it ends by itself."""
    with tempfile.TemporaryDirectory() as folder:
        home, port = Path(folder), free_port()
        log_path = home / "output"
        command = [sys.executable, "-m", "warren", "up", "--home", folder, "--port", str(port)]
        process = spawn(command, log_path=log_path)
        try:
            while "Ready." not in log_path.read_text():
                if process.poll() is not None:
                    raise RuntimeError(log_path.read_text())
                await asyncio.sleep(0.1)
            url, key = f"http://127.0.0.1:{port}", (home / "api-key").read_text().strip()
            async with warren.connect(url, key) as client:
                await client.access.set_limits("local", requests_per_s=EVERY_REQUEST_PER_S)
                yield Deployment(url, key, process.pid, client, home)
        finally:
            end(process, signal.SIGTERM, grace_s=STOP_S)
