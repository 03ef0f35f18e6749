"""Many episodes of one turn through one run: how fast, and the memory of each process."""

import asyncio
import math
import time

from benchmarks.flow.place import Curve, draw, resident_mb, site, walks
from tests.chaos.storm import has_begun

EPISODES_PER_STEP, GROUP_SIZE = 512, 8
LOOK_S = 2.0
WARM_S = 30.0
ROW_EPISODES = 50_000
"""The table has a row for so many."""


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
        curves: dict[str, Curve] = {name: [] for name in resident_mb(here)}
        print("memory in MB with children", *curves, sep=" | ", flush=True)
        n, next_row = 0, 0
        while not run.state.is_final and time.monotonic() - began_s < 60 * minutes:
            n = (await run.refresh()).step * EPISODES_PER_STEP
            for process, used_mb in (used := resident_mb(here)).items():
                curves[process].append((n, used_mb))
            if n >= next_row:
                next_row = (n // ROW_EPISODES + 1) * ROW_EPISODES
                figures = [f"{used_mb:.1f}" for used_mb in used.values()]
                print(
                    f"{n} after {time.monotonic() - began_s:.0f} s", *figures, sep=" | ", flush=True
                )
            await asyncio.sleep(LOOK_S)
        elapsed_s = time.monotonic() - began_s
        if not run.state.is_final:
            await run.cancel()
    print(f"{n} episodes in {elapsed_s:.0f} s, {n / elapsed_s:.0f}/s")
    n_warm = curves["RabbitMQ"][0][0]
    print(f"memory in MB with children, after {n_warm:.0f} episodes, after {n}, and the most")
    for process, curve in curves.items():
        used = [mb for _, mb in curve]
        print(f"{process:12s} {used[0]:8.1f} {used[-1]:8.1f} {max(used):8.1f}")
    own = {process: curve for process, curve in curves.items() if process in here.parts}
    draw("endurance", "Resident memory of each process", "episodes", "MB", own)
