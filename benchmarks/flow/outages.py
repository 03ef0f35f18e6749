"""The wall time that a run loses to an outage in its middle, beyond the outage itself."""

import time
from collections.abc import Awaitable, Callable
from functools import partial

from benchmarks.flow.place import site, walks
from tests.chaos.site import Site
from tests.chaos.storm import coordinator_of

from warren import Run
from warren_schemas.events import StepCompleted

BROKER_AWAY_S, STORE_AWAY_S = 60.0, 30.0

Outage = Callable[[Run], Awaitable[None]]


async def outages(steps: int) -> None:
    async with site(2, n_gateways=2, n_gpu_workers=2) as here:
        faults: dict[str, Outage | None] = {
            "warm": None,
            "calm": None,
            "broker away": partial(_without_broker, here),
            "store away": partial(_without_store, here),
            "gateway killed": partial(_without_gateway, here),
        }
        calm_s = 0.0
        for name, outage in faults.items():
            wall_s, away_s = await _run(here, name, steps if name != "warm" else 3, outage)
            calm_s = wall_s if outage is None else calm_s
            lost_s = wall_s - calm_s
            print(f"{name:15s} {wall_s:6.1f} s, away {away_s:5.1f} s, lost {lost_s:5.1f} s")


async def _run(here: Site, name: str, steps: int, outage: Outage | None) -> tuple[float, float]:
    """Seconds from the submission to the end, and seconds of the outage."""
    away_s = 0.0
    async with here.client() as client:
        began_s = time.monotonic()
        run_config = walks(
            name.replace(" ", "-"),
            steps=steps,
            groups_per_step=2,
            max_staleness=2,
            n_turns=4,
            step_s=0.3,
        )
        run = await client.train(run_config)
        async for event in run.events():
            is_middle = isinstance(event.body, StepCompleted) and event.body.step == steps // 2
            if outage is not None and is_middle:
                from_s = time.monotonic()
                await outage(run)
                away_s = time.monotonic() - from_s
        await run.result()
        wall_s = time.monotonic() - began_s
    for part in here.parts.values():
        if not part.is_wanted:
            part.start()
    return wall_s, away_s


async def _without_broker(here: Site, _: Run) -> None:
    await here.lose_broker(BROKER_AWAY_S)


async def _without_store(here: Site, _: Run) -> None:
    await here.lose_store(STORE_AWAY_S)


async def _without_gateway(here: Site, run: Run) -> None:
    """Its replica goes on at once for readers; the run waits for the lease."""
    holder, _ = await coordinator_of(here, run)
    holder.kill()
    here.address.cut()
