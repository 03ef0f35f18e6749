"""A storm: runs under load, faults by a plan, then calm, and the ledger."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psycopg
from tests.chaos.faults import Faults
from tests.chaos.gpu_worker import BASE_MODEL
from tests.chaos.jobs.ledger import JobReport, check_jobs
from tests.chaos.jobs.owners import Owner, owners
from tests.chaos.ledger import Books, check_books, check_store, read_books
from tests.chaos.plan import Fault
from tests.chaos.site import Part, Site

from warren import Client, Run
from warren_broker.port import Broker
from warren_broker.rabbitmq import open_rabbitmq
from warren_schemas.control import WorkerRole
from warren_schemas.events import StepCompleted
from warren_schemas.http import RunResult
from warren_schemas.http.deployment import WorkerView

MAX_STALENESS = 2
FIRST_STEP_S = 600.0
CALM_S = 900.0
"""How long, after the last fault, the runs may take to end by themselves."""
QUIET_S = 300.0
"""How long, after that, what was held may take to be let go."""

WORK = ("interact.", "compare.", "generate.", "home.", "jobs.")
"""Beginnings of the names of queues with episodes or jobs in them."""

log = logging.getLogger(__name__)


@dataclass
class Report:
    faults: Counter[str]
    books: list[Books]
    results: list[RunResult]
    jobs: JobReport
    wall_s: float
    n_mended: int
    memory_growth_mb: dict[str, float] = field(default_factory=dict[str, float])

    def __str__(self) -> str:
        lines = [f"{n:5d} x {kind}" for kind, n in sorted(self.faults.items())]
        for books, result in zip(self.books, self.results, strict=True):
            counts = books.count_endings()
            lines.append(
                f"{books.run.name}: {books.n_admitted} episodes admitted, {books.n_trained} trained"
                f" in {result.updates} updates, {len(books.ops)} ops, {dict(counts)},"
                f" epoch {books.model.epoch} of the model"
            )
        lines.append(str(self.jobs))
        lines.append(f"{sum(self.faults.values())} faults in {self.wall_s:.0f} s")
        if self.n_mended:
            lines.append(
                f"RabbitMQ stopped dead-lettering {self.n_mended} times, and was restarted"
            )
        lines += [
            f"{name}: memory grew by {mb:.1f} MB" for name, mb in self.memory_growth_mb.items()
        ]
        return "\n".join(lines)


def config(name: str, **changes: object) -> dict[str, object]:
    """A run that ends once every reward is 1."""
    base: dict[str, object] = {
        "name": name,
        "model": {"base": BASE_MODEL},
        "environments": [{"name": "walk", "config": {"n_turns": 4, "step_s": 0.3}}],
        "algorithm": {"group_size": 4, "groups_per_step": 2, "max_staleness": MAX_STALENESS},
        "limits": {
            "steps": 1_000_000,
            "episode_s": 45,
            "episode_attempts": 20,
            "stop_at_reward": 0.99,
        },
        "checkpoint": {"every_steps": 10},
    }
    return {**base, **changes}


async def weather(site: Site, plan: list[Fault], *, n_runs: int = 2, seed: int = 1) -> Report:
    """Carry the plan out over `n_runs` long runs, while others have more jobs than there is room for.

    Raises `AssertionError` if a promise was broken.
    """
    began_s = time.monotonic()
    async with onlooker(site) as broker, site.client() as client, owners(site, seed) as crowd:
        runs = [await client.train(config(f"storm-{i}")) for i in range(n_runs)]
        await asyncio.gather(*(has_begun(run) for run in runs))
        models = [await model_of(site, run) for run in runs]
        faults = Faults(site, broker, models)
        async with faults.servers.mending_broker():
            results = await storm_and_calm(site, faults, plan, runs, crowd)
            await until_quiet(client)
            await until_tidy(site)
        runs += [run for owner in crowd for run in owner.runs]
        books = [
            await read_books(site.store_url, broker, run.id, site.home / "ledger") for run in runs
        ]
    for one in books:
        check_books(one, max_staleness=MAX_STALENESS)
    check_store(site.store_url)
    jobs = await asyncio.to_thread(check_jobs, site, [run.id for run in runs])
    long = books[:n_runs]
    wall_s = time.monotonic() - began_s
    mended = faults.servers.n_mended
    return Report(faults.done, long, results, jobs, wall_s, mended, growth_mb(site))


async def storm_and_calm(
    site: Site, faults: Faults, plan: list[Fault], runs: Sequence[Run], crowd: Sequence[Owner]
) -> list[RunResult]:
    """Break things by the plan under load, then let all runs end by themselves."""
    enough = asyncio.Event()
    async with asyncio.TaskGroup() as submitting, watching_memory(site):
        tasks = [
            submitting.create_task(owner.keep_submitting(enough), name=owner.name)
            for owner in crowd
        ]
        await faults.carry_out(plan)
        enough.set()
        (site.home / "good").touch()
        async with asyncio.timeout(CALM_S):
            results = await asyncio.gather(*(run.result() for run in runs))
            await asyncio.wait(tasks)
    return results


@asynccontextmanager
async def onlooker(site: Site) -> AsyncGenerator[Broker]:
    async with open_rabbitmq(site.broker_url, name="onlooker") as broker:
        yield broker


async def has_begun(run: Run) -> None:
    """Return at the run's first training step."""
    async with asyncio.timeout(FIRST_STEP_S):
        async for event in run.events():
            if isinstance(event.body, StepCompleted):
                return


async def until_quiet(client: Client) -> None:
    """Return when no worker holds anything any more: no episode, no turn, no lease."""
    workers: Sequence[WorkerView] = ()
    try:
        async with asyncio.timeout(QUIET_S):
            while len({w.role for w in workers}) < len(WorkerRole) or busy(workers):
                await asyncio.sleep(0.5)
                workers = await client.workers()
    except TimeoutError:
        raise AssertionError(f"not quiet: {busy(workers) or workers}") from None


def busy(workers: Sequence[WorkerView]) -> list[str]:
    return [
        f"{w.id} ({w.role}, process {w.pid}) holds {w.in_flight}" for w in workers if w.in_flight
    ]


async def until_tidy(site: Site) -> None:
    """Return when no queue is left that nobody will ever consume from, no work in any, and none to
    be sent.

    The queues with orders to trainers that died go by themselves (`ORDERS_EXPIRE_S`), and so do empty homes
    (`HOME_EXPIRES_S`).
    """
    left: list[str] = []
    try:
        async with asyncio.timeout(QUIET_S):
            while left := orphans(await asyncio.to_thread(site.rabbit.queues)):
                log.info("left at the broker: %s", left)
                await asyncio.sleep(2.0)
    except TimeoutError:
        raise AssertionError(f"left at the broker: {', '.join(left)}") from None
    await until_sent(site)


async def until_sent(site: Site) -> None:
    """Return when nothing waits to be sent.

    What is for a queue that is gone is dropped after `ROUTE_GRACE_S`: the server may not be up yet.
    """
    try:
        async with asyncio.timeout(QUIET_S):
            while (unsent := await ask_store(site, "SELECT count(*) FROM outbox")) != (0,):
                log.info("%s messages to be sent", *unsent)
                await asyncio.sleep(0.5)
    except TimeoutError:
        check_store(site.store_url)
        raise


def orphans(queues: dict[str, int]) -> list[str]:
    names = {name.removeprefix("warren."): n for name, n in queues.items()}
    work = [f"{n} in {name}" for name, n in names.items() if n and name.startswith(WORK)]
    of_runs = [name for name in names if name.startswith(("train.", "results."))]
    return [*of_runs, *work]


async def model_of(site: Site, run: Run) -> str:
    (model,) = await ask_store(site, "SELECT id FROM model WHERE run_id = %s", run.id)
    return str(model)


async def coordinator_of(site: Site, run: Run) -> tuple[Part, int]:
    """The gateway that drives the run, and the epoch of its lease."""
    query = "SELECT coordinator, epoch FROM run WHERE id = %s"
    gateway, epoch = await ask_store(site, query, run.id)
    claims = f"{gateway} drives {run.id} (epoch {epoch})"
    async with asyncio.timeout(QUIET_S):
        while True:
            for part in site.of_role("gateway"):
                if claims in part.log_path.read_text():
                    return part, int(str(epoch))
            await asyncio.sleep(0.5)


async def ask_store(site: Site, query: str, *parameters: str) -> tuple[object, ...]:
    """The one row that answers; psycopg's own loop of events, so in a thread."""

    def ask() -> tuple[object, ...] | None:
        with psycopg.connect(site.store_url.replace("+psycopg", "")) as connection:
            return connection.execute(query.encode(), parameters).fetchone()

    row = await asyncio.to_thread(ask)
    assert row is not None
    return row


@asynccontextmanager
async def watching_memory(site: Site) -> AsyncGenerator[None]:
    async def watch() -> None:
        while True:
            site.sample_memory()
            await asyncio.sleep(1.0)

    task = asyncio.create_task(watch(), name="watch memory")
    try:
        yield
    finally:
        task.cancel()


WARM_S = 60
"""A process has its size by then, unless the machine is too busy to start it."""


def growth_mb(site: Site) -> dict[str, float]:
    """How much each process grew after it was warm, in its last life."""
    return {
        part.name: (part.memory_kb[-1] - part.memory_kb[WARM_S]) / 1024
        for part in site.parts.values()
        if len(part.memory_kb) > 2 * WARM_S
    }
