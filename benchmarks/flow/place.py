"""Where the flow is measured: a site of its own, runs for it, and readings of its processes."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import leather
from benchmarks.episodes.meter import cpu_by_process
from tests.chaos.ledger import turns_sampled
from tests.chaos.site import Site, let_others_in, open_site
from tests.chaos.storm import config

from warren import Client, Run
from warren_schemas.control import WorkerRole

CHARTS = Path(__file__).parent
PATIENCE_S, LOOK_S = 600.0, 0.5
Curve = list[tuple[float, float]]


@asynccontextmanager
async def site(
    n_env_workers: int, *, n_gateways: int = 1, n_gpu_workers: int = 1, **variables: str
) -> AsyncGenerator[Site]:
    async with open_site(
        let_others_in(Path(tempfile.mkdtemp(prefix="warren-flow-"))),
        n_gateways=n_gateways,
        n_gpu_workers=n_gpu_workers,
        n_env_workers=n_env_workers,
        **variables,
    ) as opened:
        yield opened


def walks(
    name: str,
    *,
    steps: int,
    groups_per_step: int,
    max_staleness: int,
    group_size: int = 4,
    in_flight: int = 1024,
    n_turns: int,
    step_s: float,
    spread: float = 0.0,
) -> dict[str, object]:
    """A run of `steps` optimizer steps in the environment `walk` with these settings."""
    walk = {"n_turns": n_turns, "step_s": step_s, "spread": spread}
    return config(
        name,
        environments=[{"name": "walk", "config": walk, "max_turns": n_turns}],
        algorithm={
            "group_size": group_size,
            "groups_per_step": groups_per_step,
            "max_staleness": max_staleness,
        },
        limits={"steps": steps, "episode_s": 600, "in_flight": in_flight},
    )


def n_turns(here: Site) -> int:
    return turns_sampled(here.home / "ledger")


async def n_live(client: Client) -> int:
    workers = await client.workers()
    return sum(w.in_flight for w in workers if w.role == WorkerRole.ENVIRONMENT)


async def until_live(client: Client, run: Run, n: float) -> None:
    """Return when so many episodes are live. Raises when the run ends before that."""
    async with asyncio.timeout(PATIENCE_S):
        while await n_live(client) < n:
            if (await run.refresh()).state.is_final:
                raise RuntimeError(f"{run.id} ended too early: {run.state}")
            await asyncio.sleep(LOOK_S)


async def until_none_live(client: Client) -> None:
    """Return when every env worker has let go of its episodes."""
    async with asyncio.timeout(PATIENCE_S):
        while await n_live(client):  # noqa: ASYNC110 - other processes have no event for us
            await asyncio.sleep(LOOK_S)


def pids(here: Site) -> dict[str, int]:
    """Every process of the site by its name; its children count with it."""
    servers = {"RabbitMQ": here.rabbit.process.pid, "PostgreSQL": here.postgres.process.pid}
    return {name: part.pid for name, part in here.parts.items()} | servers


def cpu_s(here: Site) -> dict[str, float]:
    """Seconds of CPU that each has used."""
    return {name: sum(cpu_by_process(pid).values()) for name, pid in pids(here).items()}


def resident_mb(here: Site) -> dict[str, float]:
    """Resident memory of each; what processes share, such as PostgreSQL's buffers, counts once."""
    return {
        name: sum(_resident_kb(member) for member in cpu_by_process(pid)) / 1024
        for name, pid in pids(here).items()
    }


def _resident_kb(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):  # one that ends has no memory any more
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(rollup.partition("\nPss:")[2].split()[0])
    return 0


def draw(name: str, title: str, x: str, y: str, lines: Mapping[str, Curve]) -> None:
    """Write `name`.svg beside this file; both axes begin at 0."""
    points = [point for line in lines.values() for point in line]
    chart = leather.Chart(title)
    chart.add_x_scale(0, max(px for px, _ in points))
    chart.add_y_scale(0, max(py for _, py in points) * 1.05)
    chart.add_x_axis(name=x)
    chart.add_y_axis(name=y)
    for label, line in lines.items():
        chart.add_line(line, name=label)
    chart.to_svg(str(CHARTS / f"{name}.svg"))
