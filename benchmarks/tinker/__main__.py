"""`python -m benchmarks.tinker PYTHON [--tuft FOLDER] [--skyrl FOLDER]`: PYTHON has Tinker's SDK (`make ecosystems` makes
`.venv-tinker/bin/python`), each FOLDER is an environment with a peer (`setup_peers.sh` makes `.venv-tuft` and `.venv-skyrl`).

One process per client, the tiny model, LoRA of rank 8, batches of 8 x 64 tokens; 32 samples of 16 tokens at once. The
servers take turns, each with the machine for itself. The gateway is the process that clients talk to: of Warren also
store, broker, and the supervisors of trainer and sampler, whose models compute in processes of their own. Its CPU says
more than the rate where others share the machine.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from benchmarks.tinker.measuring import Measured, measure
from benchmarks.tinker.ours import no_compute, warren
from benchmarks.tinker.peers import skyrl, tuft
from benchmarks.tinker.server import Server, What
from tests.ecosystems.tinker.table import BASE
from tests.support.base_models import build_tiny

Open = Callable[[str, Path], AbstractContextManager[Server]]
"""Starts a server that knows this model and keeps everything in this folder."""

CASES: Sequence[tuple[What, int]] = (("train", 1), ("train", 4), ("sample", 1), ("sample", 4))
HEAD = """\
| server | | clients | per second | p50 | p99 | CPU of one: gateway's, all | load |
|---|---|---|---|---|---|---|---|"""


def row(server: Server, what: What, n_clients: int, got: Measured) -> str:
    return (
        f"| {server.name} | {what} | {n_clients} | {got.per_s:.1f} | {got.p50_ms:.0f} ms |"
        f" {got.p99_ms:.0f} ms | {got.gateway_ms:.1f}, {got.all_ms:.1f} ms | {got.load:.1f} |"
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tinker")
    parser.add_argument("python")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--tuft", type=Path, help="environment that has it, and an SDK for it")
    parser.add_argument("--skyrl", type=Path, help="environment that has it, and an SDK for it")
    asked = parser.parse_args(arguments)
    opens: list[Open] = [partial(warren, asked.python), partial(no_compute, asked.python)]
    opens += [partial(tuft, asked.tuft)] if asked.tuft else []
    opens += [partial(skyrl, asked.skyrl)] if asked.skyrl else []
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        model = str(build_tiny(BASE, Path(folder) / "models"))
        for number, open_server in enumerate(opens):
            home = Path(folder) / str(number)
            home.mkdir()
            with open_server(model, home) as server:
                for what, n_clients in CASES:
                    if what in server.offers:
                        got = measure(server, what, n_clients, asked.seconds)
                        print(row(server, what, n_clients, got), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
