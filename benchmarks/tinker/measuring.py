"""Clients of a server, a process each, that begin together; how fast they were, and whose CPU it took."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from benchmarks.episodes.meter import cpu_by_process
from benchmarks.tinker.server import Server, What

CLIENT = Path(__file__).with_name("client.py")


@dataclass(frozen=True, slots=True)
class Used:
    """Seconds of CPU."""

    gateway_s: float
    all_s: float

    @classmethod
    def by(cls, server: Server) -> Self:
        used_s = cpu_by_process(server.pid)
        return cls(used_s[server.gateway_pid], sum(used_s.values()))


@dataclass(frozen=True, slots=True)
class Measured:
    per_s: float
    """Steps, or samples."""
    p50_ms: float
    """Of a step, or of a burst of samples."""
    p99_ms: float
    gateway_ms: float
    """Of CPU, for one step or sample."""
    all_ms: float
    load: float
    """Of the machine, over the last minute."""


def measure(server: Server, what: What, n_clients: int, seconds: float) -> Measured:
    command = [server.python, str(CLIENT), server.url, server.key, server.base_model]
    clients = [
        subprocess.Popen(
            [*command, str(seconds), what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(n_clients)
    ]
    try:
        return _measured(server, clients)
    finally:
        for client in clients:
            client.kill()
            client.wait()


def _measured(server: Server, clients: "list[subprocess.Popen[str]]") -> Measured:
    for client in clients:
        assert _line(client) == "ready\n", f"a client of {server.name} has ended early"
    before = Used.by(server)
    for client in clients:
        assert client.stdin is not None
        client.stdin.write("\n")
        client.stdin.flush()
    told = [json.loads(_line(client)) for client in clients]
    after, load = Used.by(server), os.getloadavg()[0]
    for client in clients:
        client.communicate()
    n = sum(one["n"] for one in told)
    took_s = np.concatenate([one["took_s"] for one in told])
    p50_s, p99_s = np.percentile(took_s, [50, 99])
    return Measured(
        per_s=sum(one["n"] / one["lasted_s"] for one in told),
        p50_ms=1e3 * float(p50_s),
        p99_ms=1e3 * float(p99_s),
        gateway_ms=1e3 * (after.gateway_s - before.gateway_s) / n,
        all_ms=1e3 * (after.all_s - before.all_s) / n,
        load=load,
    )


def _line(client: "subprocess.Popen[str]") -> str:
    assert client.stdout is not None
    return client.stdout.readline()
