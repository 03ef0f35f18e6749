"""`python -m tests.fuzz.tenants --attacks 20000 --seed 1`: half of them on SQLite, the others on PostgreSQL."""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.tenants.attacking import AT_ONCE, Told, attacked
from tests.support.gateway import open_gateway
from tests.support.private_postgres import PrivatePostgres

from warren_broker.memory import open_memory
from warren_gateway.store.store import Store

N_OF_ROUND = 2500
"""Attacks on one gateway: what their sender has of its own is bounded."""
MOST_SHOWN = 20


def main() -> None:
    parser = argparse.ArgumentParser(description="Names of one Tinker tenant in another's hands")
    parser.add_argument("--attacks", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    n = options.attacks // 2
    is_good = _fuzz("SQLite", lambda folder: f"sqlite:///{folder}/warren.db", n, options.seed)
    server = PrivatePostgres(Path(tempfile.mkdtemp(prefix="warren-fuzz-")))
    try:
        server.create()
        server.start()
        is_good &= _fuzz("PostgreSQL", lambda _: server.new_database(), n, options.seed)
    finally:
        server.close()
    sys.exit(not is_good)


def _fuzz(name: str, new_store: Callable[[str], str], n_attacks: int, seed: int) -> bool:
    print(f"== {name}", flush=True)
    began_s, sums = time.monotonic(), Told()
    for number in range(-(-n_attacks // N_OF_ROUND)):
        n = min(N_OF_ROUND, n_attacks - number * N_OF_ROUND)
        told = asyncio.run(_round(new_store, n, seed + number))
        sums.n_attacks += told.n_attacks
        sums.statuses += told.statuses
        sums.findings += told.findings
    statuses = ", ".join(f"{status} x {n:,}" for status, n in sorted(sums.statuses.items()))
    took_s = time.monotonic() - began_s
    print(
        f"{sums.n_attacks:,} attacks in {took_s:.0f} s: {len(sums.findings)} findings; {statuses}"
    )
    print(*sums.findings[:MOST_SHOWN], sep="\n")
    return not sums.findings


async def _round(new_store: Callable[[str], str], n_attacks: int, seed: int) -> Told:
    with tempfile.TemporaryDirectory(prefix="warren-fuzz-") as folder:
        store = await Store.open(new_store(folder))
        try:
            async with (
                open_memory(None, name="gateway") as broker,
                open_gateway(store, broker, Path(folder) / "runs", budgets=AT_ONCE) as gateway,
            ):
                return await attacked(gateway, Path(folder), n_attacks=n_attacks, seed=seed)
        finally:
            await store.close()


if __name__ == "__main__":
    main()
