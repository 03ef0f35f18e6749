"""The same number of samples, on-policy and with four steps of lag, where steps have a long tail."""

import math
import time

from benchmarks.flow.place import Curve, draw, site, walks
from tests.chaos.site import Site

from warren_schemas.events import StepCompleted

P99_OVER_MEDIAN = 20.0
SPREAD = math.log(P99_OVER_MEDIAN) / 2.3263
"""Of a log-normal distribution whose 99th percentile is that many times its median."""
MEDIAN_S = 0.2


async def staleness(steps: int) -> None:
    async with site(2) as here:
        await _curve(here, 0, 2)  # everything is imported and warm
        sync = await _curve(here, 0, steps)
        lagging = await _curve(here, 4, steps)
    sync_s, async_s = sync[-1][0], lagging[-1][0]
    print(f"max_staleness 0: {sync_s:.1f} s, 4: {async_s:.1f} s, {sync_s / async_s:.2f} times less")
    draw(
        "staleness",
        f"Environment steps log-normal, p99 = {P99_OVER_MEDIAN:g} x median",
        "seconds",
        "optimizer steps of 32 episodes",
        {"max_staleness 4": lagging, "max_staleness 0": sync},
    )


async def _curve(here: Site, max_staleness: int, steps: int) -> Curve:
    """Optimizer steps over the seconds since the submission."""
    run_config = walks(
        f"staleness-{max_staleness}",
        steps=steps,
        groups_per_step=8,
        max_staleness=max_staleness,
        n_turns=3,
        step_s=MEDIAN_S,
        spread=SPREAD,
    )
    curve: Curve = [(0.0, 0.0)]
    async with here.client() as client:
        began_s = time.monotonic()
        run = await client.train(run_config)
        async for event in run.events():
            if isinstance(event.body, StepCompleted):
                curve.append((time.monotonic() - began_s, float(event.body.step)))
        result = await run.result()
    print(f"max_staleness {max_staleness}: {result.episodes} episodes, {result.updates} updates")
    return curve
