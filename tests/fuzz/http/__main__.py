"""`python -m tests.fuzz.http --requests 10000 --seed 1`."""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.http.deployment import deployed
from tests.fuzz.http.requests import Asked, ask


def main() -> None:
    parser = argparse.ArgumentParser(description="Requests by schemathesis to `warren up`")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schemathesis", type=Path, default=Path(".venv-fuzz/bin/st"))
    options = parser.parse_args()
    sys.exit(asyncio.run(_fuzz(options.requests, options.seed, options.schemathesis.absolute())))


async def _fuzz(n_requests: int, seed: int, program: Path) -> int:
    began_s = time.monotonic()
    async with deployed() as deployment:
        run = await deployment.complete("before the fuzz")
        print(f"a run before it: {run.state}", flush=True)
        processes = deployment.processes()
        asked = await ask(deployment, program, run.id, n_requests, seed)
        dead = processes - deployment.processes()
        print(deployment.tracebacks(), end="")
        after = await deployment.complete("after the fuzz")
    took_s = time.monotonic() - began_s
    _show("by phase", (answer.phase for answer in asked.answers))
    _show("by status", (str(answer.status) for answer in asked.answers))
    n_errors = sum(answer.status >= 500 for answer in asked.answers)
    print(
        f"{len(asked.answers):,} requests in {took_s:.0f} s: {n_errors} x 5xx, {len(dead)} dead processes"
    )
    print(f"a run afterwards: {after.state}")
    return int(bool(n_errors or dead or asked.n_failed_rounds or _is_short(asked, n_requests)))


def _is_short(asked: Asked, n_requests: int) -> bool:
    return len(asked.answers) < n_requests


def _show(title: str, names: Iterable[str]) -> None:
    print(f"{title}: " + ", ".join(f"{name} {n:,}" for name, n in sorted(Counter(names).items())))


if __name__ == "__main__":
    main()
