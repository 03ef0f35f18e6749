"""`python -m tests.rough --faults 200`: faults from outside, on SQLite and on PostgreSQL, then the audit."""

import argparse
import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.rough.audit import Audit, audit
from tests.rough.faults import Faults
from tests.support.deployment import Site, connected
from tests.support.private_postgres import PrivatePostgres
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import until_none

from warren import Client
from warren_schemas.control import WorkerRole

GAP_S = 3.0
CALM_S = 900.0
LEFT_S = 300.0
STEPS_PER_FAULT = 3


async def rough(
    folder: Path,
    store: str | None,
    rabbit: PrivateRabbit,
    *,
    n_faults: int,
    seed: int,
    gap_s: float,
) -> tuple[Faults, Audit]:
    """Raises `AssertionError` if the record is wrong, or something is left."""
    site = Site(folder, rabbit.url, store)
    n_steps = STEPS_PER_FAULT * n_faults
    try:
        await site.start_all()
        async with connected(site) as client:
            run = await client.train(config(n_steps))
            faults = Faults(site, rabbit, random.Random(seed))
            for _ in range(n_faults):
                await asyncio.sleep(gap_s)
                await faults.one()
            async with asyncio.timeout(CALM_S):
                await run.result()
            found = await audit(site, client, run, n_steps=n_steps, folder=folder)
            await nothing_is_held(client, rabbit)
    finally:
        await asyncio.to_thread(site.stop)
    await until_none(lambda: processes_of(site.home))
    return faults, found


def processes_of(home: Path) -> list[int]:
    """Whatever was started with this home, children of children included."""
    mark, found = f"WARREN_HOME={home}".encode(), list[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def config(n_steps: int) -> dict[str, object]:
    return {
        "name": "rough",
        "model": {"base": "warren/tiny"},
        "environments": [{"name": "guess"}],
        "algorithm": {"group_size": 4, "groups_per_step": 2},
        "sft": {"steps": 40},  # so that groups differ in their rewards, and the model is trained
        "limits": {"steps": n_steps, "episode_s": 30, "episode_attempts": 20},
        "checkpoint": {"every_steps": 5},
    }


async def nothing_is_held(client: Client, rabbit: PrivateRabbit) -> None:
    """Workers of every role are there and hold nothing, and no queue of a run is left."""
    wrong: dict[str, object] = {"nobody": "looked yet"}
    try:
        async with asyncio.timeout(LEFT_S):
            while True:
                wrong = await held(client, rabbit)
                if not wrong:
                    return
                await asyncio.sleep(1.0)
    except TimeoutError:
        raise AssertionError(f"still held after {LEFT_S:.0f} s: {wrong}") from None


async def held(client: Client, rabbit: PrivateRabbit) -> dict[str, object]:
    """Roles without a worker, messages in flight by worker, and queues of runs, each if there are any."""
    workers = await client.workers()
    names = [n.removeprefix("warren.") for n in await asyncio.to_thread(rabbit.queues)]
    found = {
        "roles without a worker": set(WorkerRole) - {worker.role for worker in workers},
        "in flight": {w.id: w.in_flight for w in workers if w.in_flight},
        "queues": [name for name in names if name.startswith(("train.", "results."))],
    }
    return {what: those for what, those in found.items() if those}


@contextmanager
def stores(folder: Path) -> Generator[dict[str, str | None]]:
    (folder / "postgres").mkdir()
    postgres = PrivatePostgres(folder / "postgres")
    postgres.create()
    postgres.start()
    try:
        yield {"sqlite": None, "postgresql": postgres.new_database()}
    finally:
        postgres.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gap-s", type=float, default=GAP_S)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), help="this one alone")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="warren-rough-"))
    folder.chmod(0o755)  # servers that refuse to run as root run as somebody else
    print(f"logs lie in {folder}")
    (folder / "rabbit").mkdir()
    rabbit = PrivateRabbit(folder / "rabbit")
    rabbit.start()
    try:
        with stores(folder) as urls:
            for name, url in urls.items():
                if given.store not in (None, name):
                    continue
                (folder / name).mkdir()
                began_s = time.monotonic()
                faults, found = asyncio.run(
                    rough(
                        folder / name, url, rabbit,
                        n_faults=given.faults, seed=given.seed, gap_s=given.gap_s,
                    )
                )  # fmt: skip
                print(f"{name}: {dict(faults.done)} in {time.monotonic() - began_s:.0f} s; {found}")
    finally:
        rabbit.close()


if __name__ == "__main__":
    main()
