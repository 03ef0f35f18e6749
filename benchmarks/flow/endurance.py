"""Many episodes of one turn through one run: how fast, and the memory of each process."""

import asyncio
import math
import time

from benchmarks.flow.place import resident_mb, site, walks
from tests.chaos.storm import has_begun

EPISODES_PER_STEP, GROUP_SIZE = 512, 8
LOOK_S = 2.0
WARM_S = 30.0


async def endurance(episodes: int, minutes: float) -> None:
    """At most for so long; says how many episodes it were."""
    run_config = walks(
        "endurance",
        steps=math.ceil(episodes / EPISODES_PER_STEP),
        groups_per_step=EPISODES_PER_STEP // GROUP_SIZE,
        group_size=GROUP_SIZE,
        max_staleness=4,
        n_turns=1,
        step_s=0.0,
    )
    async with site(2, CHAOS_TURN_S="0.0") as here, here.client() as client:
        began_s = time.monotonic()
        run = await client.train(run_config)
        await has_begun(run)
        await asyncio.sleep(WARM_S)
        n_warm = n = (await run.refresh()).step * EPISODES_PER_STEP
        start = resident_mb(here)
        while not run.state.is_final and time.monotonic() - began_s < 60 * minutes:
            await asyncio.sleep(LOOK_S)
            n = (await run.refresh()).step * EPISODES_PER_STEP
        end, elapsed_s = resident_mb(here), time.monotonic() - began_s
        if not run.state.is_final:
            await run.cancel()
    print(f"{n} episodes in {elapsed_s:.0f} s, {n / elapsed_s:.0f}/s")
    print(f"memory in MB with children, after {n_warm} episodes and after {n}")
    for name, before_mb in start.items():
        print(f"{name:12s} {before_mb:8.1f} {end[name]:8.1f}")
