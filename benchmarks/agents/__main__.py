"""CPU of an agent's turn on an env worker's host: `python -m benchmarks.agents`.

Agents that are live at once ask and are answered in rounds, with no model behind: what the host's process spends is the
endpoint, the translation and the environment's turn. The agents and their HTTP client (aiohttp) have a process of their
own, which is told beside it. The same game by a native environment is one comparison; the other is the same calls to a
server that answers without a thought.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.agents.clients import N_TURNS, Errand, sent
from benchmarks.agents.players import Player, spec
from pydantic import JsonValue
from tests.support.conversations import SURFACES

from warren_env_worker.host.host import Host
from warren_env_worker.host.startup import CHILD_MODULE

N_AGENTS = 500
PROMPTS = (1, 2000)
"""Of so many characters, which are as many tokens."""


async def main() -> None:
    with TemporaryDirectory() as folder:
        socket = str(Path(folder, "agents"))
        with _program("clients", socket) as (clients, _):
            for n_chars in PROMPTS:
                print(f"\n{N_AGENTS} live, {N_TURNS} turns each behind {n_chars:,} tokens")
                print("CPU of a turn, ms                 server   agents")
                await _native(clients, n_chars)
                await _bare(clients, socket, n_chars)
                for dialect in SURFACES:
                    await _agents(clients, socket, dialect, n_chars)


async def _native(clients: int, n_chars: int) -> None:
    async with _host("Native") as (host, child):
        with _measured("native environment", child, clients):
            await _played(host, {"n_chars": n_chars})


async def _bare(clients: int, socket: str, n_chars: int) -> None:
    with _program("bare") as (server, url):
        errand = Errand(
            dialect="chat", n_chars=n_chars, base_url=f"{url}/v1", root_url=url, api_key="key"
        )
        with _measured("bare HTTP", server, clients):
            await asyncio.gather(*(sent(socket, errand) for _ in range(N_AGENTS)))


async def _agents(clients: int, socket: str, dialect: str, n_chars: int) -> None:
    async with _host("Asking") as (host, child):
        with _measured(dialect, child, clients):
            await _played(host, {"socket": socket, "dialect": dialect, "n_chars": n_chars})


async def _played(host: Host, config: dict[str, JsonValue]) -> None:
    episode = spec(config, max_turns=N_TURNS + 1)
    await asyncio.gather(*(Player(host, episode).play() for _ in range(N_AGENTS)))


@contextmanager
def _measured(what: str, server: int, clients: int) -> Generator[None]:
    """Tell what both processes spent for a turn."""
    began_s, before_s = time.perf_counter(), (_cpu_s(server), _cpu_s(clients))
    yield
    wall_s, after_s = time.perf_counter() - began_s, (_cpu_s(server), _cpu_s(clients))
    n_turns = N_AGENTS * N_TURNS
    server_ms, clients_ms = (
        (end_s - begin_s) / n_turns * 1000 for begin_s, end_s in zip(before_s, after_s, strict=True)
    )
    turns_per_s = n_turns / wall_s
    print(f"{what:32} {server_ms:7.2f} {clients_ms:8.2f}   {turns_per_s:7,.0f} turns/s", flush=True)


@asynccontextmanager
async def _host(environment: str) -> AsyncGenerator[tuple[Host, int]]:
    """The host, and the process in which it plays."""
    host = Host(f"benchmarks.agents.environments:{environment}")
    running = asyncio.create_task(host.run(), name="host")
    await host.start()
    yield host, _child()
    running.cancel()
    await asyncio.wait({running})


@contextmanager
def _program(module: str, *args: str) -> Generator[tuple[int, str]]:
    """A program beside this one: its process, and the first line that it said."""
    command = [sys.executable, "-m", f"benchmarks.agents.{module}", *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        try:
            yield running.pid, running.stdout.readline().strip()
        finally:
            running.terminate()


def _child() -> int:
    """The host's process."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline") as line, open(f"/proc/{entry}/stat") as stat:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
                    if CHILD_MODULE in line.read() and parent == os.getpid():
                        return int(entry)
            except FileNotFoundError:  # it has just ended
                continue
    raise RuntimeError("the host has no process")


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    asyncio.run(main())
