"""A deployment under fire: real processes, each behind proxies of its own, on private servers.

Every process can be killed, frozen and started again under its name, as a container platform would;
every link of every process to the broker and to the store can be cut or stalled.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import stat
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import clock
from tests.chaos.part import ROOT, Part
from tests.chaos.proxy import Proxy
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.private_postgres import USER, PrivatePostgres
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import end, free_port, listens, wait_until

import warren
from warren import Client

PARTS = ("broker", "deploy", "env_worker", "gateway", "gpu_worker", "schemas", "sdk")
AMQP_HEARTBEAT_S = 20
"""Longer than any pause that a busy machine makes."""
RESTART_S, LONGEST_PAUSE_S = 1.0, 30.0
MARK = "CHAOS_SITE"
"""Variable by which a site finds what it started, children of children included."""


@dataclass
class Site:
    home: Path
    rabbit: PrivateRabbit
    postgres: PrivatePostgres
    database: str
    """Name of the database."""
    parts: dict[str, Part] = field(default_factory=dict[str, Part])
    address: Proxy = field(default_factory=Proxy)
    """The one address of all gateways."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """For every process."""
    key: str = field(default_factory=lambda: f"wk_{secrets.token_hex(8)}_{secrets.token_hex(16)}")
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    is_broker_away: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.address.port}"

    @property
    def broker_url(self) -> str:
        """Without a proxy: for those who look on."""
        return f"{self.rabbit.url}?heartbeat={AMQP_HEARTBEAT_S}"

    @property
    def store_url(self) -> str:
        return self._store_url(self.postgres.port)

    def of_role(self, *roles: str) -> list[Part]:
        return [part for part in self.parts.values() if part.role in roles]

    def client(self, *, retry_s: float = 120.0) -> Client:
        return warren.connect(self.url, api_key=self.key, retry_s=retry_s)

    async def add_gateways(self, n: int) -> None:
        ports = [free_port() for _ in range(n)]
        for i, port in enumerate(ports, start=1):
            folder = str(self.home / f"gateway-{i}")
            command = ("warren", "gateway", "--port", str(port), "--home", folder)
            await self._add(f"gateway-{i}", "gateway", command, stores=True)
        self.address = Proxy(*ports)
        await self.address.start()
        for part, port in zip(self.of_role("gateway"), ports, strict=True):
            await asyncio.to_thread(_until_listening, part, port)

    async def add_gpu_workers(self, n: int) -> None:
        for i in range(1, n + 1):
            await self._add(f"gpu-{i}", "gpu", ("tests.chaos.gpu_worker",))

    async def add_env_workers(self, n: int, *options: str, environment: str = "Walk") -> None:
        hosted = ("--env", f"tests.chaos.environments:{environment}")
        n_before = len(self.of_role("env"))
        for i in range(n_before + 1, n_before + n + 1):
            command = ("warren", "env-worker", "--only", *hosted, *options)
            await self._add(f"env-{i}", "env", command)

    async def _add(
        self, name: str, role: str, command: tuple[str, ...], *, stores: bool = False
    ) -> None:
        broker_link = Proxy(self.rabbit.port)
        await broker_link.start()
        store_link = Proxy(self.postgres.port) if stores else None
        environment = self._environment(broker_link.port)
        if store_link is not None:
            await store_link.start()
            environment["WARREN_STORE_URL"] = self._store_url(store_link.port)
        log_path, clock_path = self.home / f"{name}.log", self.home / f"{name}.clock"
        clock.set_shift(clock_path, 0.0)
        environment[clock.VARIABLE] = str(clock_path)
        part = Part(name, role, command, broker_link, store_link, environment, log_path, clock_path)
        self.parts[name] = part
        part.start()

    def _environment(self, broker_port: int) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*(str(ROOT / part) for part in PARTS), str(ROOT)]),
            "OMP_NUM_THREADS": "1",
            "WARREN_BROKER_URL": (
                f"amqp://guest:guest@127.0.0.1:{broker_port}/?heartbeat={AMQP_HEARTBEAT_S}"
            ),
            "WARREN_HOME": str(self.home),
            "WARREN_API_KEY": self.key,
            MARK: self.mark,
            **self.variables,
        }

    def _store_url(self, port: int) -> str:
        return f"postgresql+psycopg://{USER}@127.0.0.1:{port}/{self.database}"

    async def lose_broker(self, away_s: float) -> None:
        """Kill it, boot it after a while, and return when it answers."""
        self.is_broker_away = True
        try:
            self.rabbit.kill()
            await asyncio.sleep(away_s)
            self.rabbit.spawn()
            await asyncio.to_thread(self.rabbit.wait_until_ready)
        finally:
            self.is_broker_away = False

    async def lose_store(self, away_s: float) -> None:
        """The same with the store."""
        await asyncio.to_thread(self.postgres.kill)
        await asyncio.sleep(away_s)
        self.postgres.spawn()
        await asyncio.to_thread(self.postgres.wait_until_ready)

    def sample_memory(self) -> None:
        for part in self.parts.values():
            with contextlib.suppress(OSError, ValueError, IndexError):
                status = Path(f"/proc/{part.pid}/status").read_text()
                part.memory_kb.append(int(status.partition("VmRSS:")[2].split()[0]))

    async def keep_alive(self) -> None:
        """Start again what ended by itself, as a container platform does; never returns.

        What ends soon after its start rests longer each time; without a broker all would.
        """
        loop = asyncio.get_running_loop()
        due_s: dict[str, float] = {}
        pause_s: dict[str, float] = {}
        while True:
            now_s = loop.time()
            for name, part in self.parts.items():
                if not part.is_wanted or part.is_alive or self.is_broker_away:
                    continue
                if name not in due_s:
                    is_new = now_s - part.born_s > LONGEST_PAUSE_S
                    pause_s[name] = RESTART_S if is_new else 2 * pause_s.get(name, RESTART_S)
                    due_s[name] = now_s + min(pause_s[name], LONGEST_PAUSE_S)
                elif now_s >= due_s[name]:
                    del due_s[name]
                    part.start()
            await asyncio.sleep(RESTART_S)

    def stop(self) -> None:
        """In good order, all at once."""
        for part in self.parts.values():
            part.is_wanted = False
            part.thaw()
            if part.is_alive and part.process is not None:
                part.process.send_signal(signal.SIGTERM)
        for part in self.parts.values():
            if part.process is not None:
                end(part.process, signal.SIGTERM, grace_s=STOP_S)

    def left_behind(self) -> list[str]:
        """Processes of this site that still run, whoever started them."""
        found: list[str] = []
        mark = f"{MARK}={self.mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    found.append(f"{folder.name}: {b' '.join(words).decode()}")
        return found

    async def close(self) -> None:
        await asyncio.to_thread(self.stop)
        for part in self.parts.values():
            await part.broker_link.close()
            if part.store_link is not None:
                await part.store_link.close()
        await self.address.close()


@asynccontextmanager
async def open_site(
    home: Path, *, n_gateways: int, n_gpu_workers: int, n_env_workers: int, **variables: str
) -> AsyncGenerator[Site]:
    """Servers of its own, because they are killed, and everything on them."""
    (home / "rabbit").mkdir(parents=True)
    (home / "postgres").mkdir()
    rabbit, postgres = PrivateRabbit(home / "rabbit"), PrivatePostgres(home / "postgres")
    rabbit.spawn()
    try:
        postgres.create()
        postgres.start()
        database = postgres.new_database().rpartition("/")[2]
        await asyncio.to_thread(rabbit.wait_until_ready)
        site = Site(home, rabbit, postgres, database, variables=variables)
        keeping_alive = asyncio.create_task(site.keep_alive(), name="keep alive")
        try:
            await site.add_gateways(n_gateways)
            await site.add_gpu_workers(n_gpu_workers)
            await site.add_env_workers(n_env_workers)
            yield site
        finally:
            keeping_alive.cancel()
            await site.close()
    finally:
        rabbit.close()
        postgres.close()


def new_home() -> Path:
    """A folder for a site, not below one of pytest: a second session of tests would lock others out."""
    return let_others_in(Path(tempfile.mkdtemp(prefix="warren-chaos-")))


def let_others_in(folder: Path) -> Path:
    """PostgreSQL doesn't run as root, and must get to its data."""
    for one in (folder, *folder.parents):
        mode = one.stat().st_mode
        if os.geteuid() == 0 and not mode & stat.S_IXOTH:
            one.chmod(mode | stat.S_IXOTH)
    return folder


def _until_listening(part: Part, port: int) -> None:
    assert part.process is not None
    wait_until(lambda: listens(port), part.process, deadline_s=PATIENCE_S, log_path=part.log_path)
