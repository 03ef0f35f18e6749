"""`python -m benchmarks.tinker PYTHON`: PYTHON has Tinker's SDK (`make ecosystems` makes `.venv-tinker/bin/python`).

One process per client, the tiny model, LoRA of rank 8, batches of 8 x 64 tokens; 32 samples of 16 tokens at once.
The gateway's CPU is that of the process of `warren up`: gateway, store, broker, and the supervisors of trainer and
sampler, whose models compute in processes of their own. It says more than the rate where others share the machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.ecosystems.tinker.table import BASE, Up, deployed
from tests.support.base_models import build_tiny

CLIENT = Path(__file__).with_name("client.py")
CASES = (("train", 1), ("train", 4), ("sample", 1), ("sample", 4))
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    per_s: float
    p50_ms: float
    gateway_ms: float
    """Of CPU, for one step or sample."""
    load: float
    """Of the machine, over the last minute."""


def measure(up: Up, python: str, what: str, n_clients: int, seconds: float) -> Measured:
    command = [python, str(CLIENT), up.url, up.key, BASE, str(seconds), what]
    clients = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(n_clients)
    ]
    for client in clients:
        assert _line(client) == "ready\n", "a client ended early"
    before_s = _cpu_s(up)
    for client in clients:
        assert client.stdin is not None
        client.stdin.write("\n")
        client.stdin.flush()
    told = [json.loads(_line(client)) for client in clients]
    cpu_s, load = _cpu_s(up) - before_s, os.getloadavg()[0]
    for client in clients:
        client.communicate()
    n = sum(one["n"] for one in told)
    per_s = sum(one["n"] / one["lasted_s"] for one in told)
    p50_s = sorted(one["p50_s"] for one in told)[len(told) // 2]
    return Measured(per_s, 1e3 * p50_s, 1e3 * cpu_s / n, load)


def _line(client: "subprocess.Popen[str]") -> str:
    assert client.stdout is not None
    return client.stdout.readline()


def _cpu_s(up: Up) -> float:
    assert up.process is not None
    fields = Path(f"/proc/{up.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tinker")
    parser.add_argument("python")
    parser.add_argument("--seconds", type=float, default=10.0)
    asked = parser.parse_args(arguments)
    print(
        "| | clients | per second | p50 | gateway's CPU for one | load |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        model = str(build_tiny(BASE, Path(folder) / "models"))
        with deployed(Path(folder), model) as up:
            for what, n_clients in CASES:
                got = measure(up, asked.python, what, n_clients, asked.seconds)
                print(
                    f"| {what} | {n_clients} | {got.per_s:.1f} | {got.p50_ms:.0f} ms |"
                    f" {got.gateway_ms:.1f} ms | {got.load:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
