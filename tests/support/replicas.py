"""Two gateways behind one address, and a GPU worker, each a process of its own: the first gateway can be killed for good.

Until then all that is asked goes to it, and it drives what was begun before the second one came.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.proxy import Proxy
from tests.support.deployment import Site
from tests.support.patience import PATIENCE_S
from tests.support.processes import free_port, listens, wait_until
from tests.support.tinker import are_offered

FIRST, SECOND, GPU = "first", "second", "gpu"


@dataclass
class Replicas:
    site: Site
    address: Proxy
    ports: dict[str, int]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.address.port}"

    @property
    def key(self) -> str:
        """Of a Tinker client; the first gateway has made it, and the store knows it."""
        return f"tml-{(self.site.home / FIRST / 'api-key').read_text().strip()}"

    async def start(self, name: str) -> None:
        port, home = str(self.ports[name]), str(self.site.home / name)
        self.site.start(name, "gateway", "--port", port, "--home", home)
        await self._until(name, lambda: listens(self.ports[name]))

    async def start_gpu_worker(self, base_model: str) -> None:
        options = ("--base-model", base_model, "--engine", "transformers")
        self.site.start(GPU, "gpu-worker", *options)
        await self._until(GPU, lambda: are_offered(self.url, self.key))

    async def _until(self, name: str, is_so: Callable[[], bool]) -> None:
        process, log = self.site.processes[name], self.site.log(name)
        await asyncio.to_thread(wait_until, is_so, process, deadline_s=PATIENCE_S, log_path=log)

    async def kill_first(self) -> None:
        await self.site.kill(FIRST)


@asynccontextmanager
async def first_of_two(
    home: Path, broker: str, store: str, base_model: str
) -> AsyncGenerator[Replicas]:
    """The second gateway is yet to be started."""
    ports = {FIRST: free_port(), SECOND: free_port()}
    site, address = Site(home, broker, store), Proxy(*ports.values())
    await address.start()
    try:
        replicas = Replicas(site, address, ports)
        await replicas.start(FIRST)
        await replicas.start_gpu_worker(base_model)
        yield replicas
    finally:
        await asyncio.to_thread(site.stop)
        await address.close()
