"""Measures both sides in turns and prints a table, with the medians of several rounds."""

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table
from tests.ecosystems.real_server import ROOT, RealServer, real_server

_PROGRAMS = ROOT / "tests" / "ecosystems"
ECOSYSTEMS = {
    "ors": _PROGRAMS / "ors" / "server_ors.py",
    "openenv": _PROGRAMS / "openenv" / "server.py",
}
"""With the program that is the server."""
SIDES = {
    "warren": "Warren's environment",
    "hosted": "in an env worker's host",
    "client": "the server's own client",
}
MEASURED = {
    "p50_ms": "p50 of a step, ms",
    "step_ms": "time / steps, ms",
    "cpu_us": "CPU of a step, µs",
}
Measured = dict[str, float]
Rounds = dict[tuple[str, int, str], list[Measured]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.served")
    parser.add_argument("--only", choices=ECOSYSTEMS, help="one of the servers")
    parser.add_argument("--live", default="1,32,256", help="episodes that are live at once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    chosen = parser.parse_args()
    rounds: Rounds = defaultdict(list)
    for ecosystem in [chosen.only] if chosen.only else ECOSYSTEMS:
        program = ECOSYSTEMS[ecosystem]
        with (
            TemporaryDirectory() as folder,
            real_server(ecosystem, program, Path(folder)) as server,
        ):
            _side(ecosystem, "warren", server, 1, 0.1)  # waits until the server is up
            for number in range(chosen.rounds):
                for n_live in map(int, chosen.live.split(",")):
                    for side in [*SIDES][:: (-1) ** number]:
                        found = _side(ecosystem, side, server, n_live, chosen.seconds)
                        rounds[ecosystem, n_live, side].append(found)
    Console(width=160).print(_table(rounds))


def _side(ecosystem: str, side: str, server: RealServer, n_live: int, seconds: float) -> Measured:
    foreign = str(ROOT / f".venv-{ecosystem}" / "bin" / "python")
    python = foreign if side == "client" else sys.executable
    command = [python, "-m", module_of(ecosystem, side), server.url, str(n_live), str(seconds)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def module_of(ecosystem: str, side: str) -> str:
    return f"benchmarks.served.{side}_{ecosystem}"


def _table(rounds: Rounds) -> Table:
    names = [each for name in MEASURED.values() for each in (name, ": own")]
    shown = Table("server", "live", "side", *names, "of each round")
    for (ecosystem, n_live, side), found in rounds.items():
        own = rounds[ecosystem, n_live, "client"]
        cells = [cell for name in MEASURED for cell in _cells(name, found, own)]
        of_rounds = " ".join(f"{ratio:.2f}" for ratio in _ratios("step_ms", found, own))
        shown.add_row(ecosystem, str(n_live), SIDES[side], *cells, of_rounds)
    return shown


def _cells(name: str, found: list[Measured], own: list[Measured]) -> tuple[str, str]:
    value = statistics.median(of[name] for of in found)
    return f"{value:,.4g}", f"{statistics.median(_ratios(name, found, own)):.2f}"


def _ratios(name: str, found: list[Measured], own: list[Measured]) -> list[float]:
    """To the server's own client, in the same round."""
    return [of[name] / to[name] for of, to in zip(found, own, strict=True)]


if __name__ == "__main__":
    main()
