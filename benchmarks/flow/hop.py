"""What a step costs through all hops when neither policy nor environment takes any time, and whom."""

import asyncio
import time

from benchmarks.flow.place import cpu_s, n_turns, site, until_live, walks

IN_FLIGHT = (4, 32, 256)


async def hop(seconds: float) -> None:
    async with site(1, CHAOS_TURN_S="0.0", CHAOS_OP_S="0.0") as here, here.client() as client:
        for live in IN_FLIGHT:
            run_config = walks(
                f"hop-{live}",
                steps=1_000_000,
                groups_per_step=max(1, live // 4),
                max_staleness=8,
                in_flight=live,
                n_turns=50,
                step_s=0.0,
            )
            run = await client.train(run_config)
            await until_live(client, run, live / 2)
            before, turns, began_s = cpu_s(here), n_turns(here), time.monotonic()
            await asyncio.sleep(seconds)
            n, elapsed_s = n_turns(here) - turns, time.monotonic() - began_s
            after = cpu_s(here)
            await run.cancel()
            used = {name: 1e6 * (after[name] - before[name]) / n for name in after}
            shares = ", ".join(f"{name} {micro_s:.0f}" for name, micro_s in used.items())
            print(
                f"{live:4d} live: {n / elapsed_s:.0f} steps/s, {1e3 * live * elapsed_s / n:.1f} ms each;"
                f" CPU µs/step {sum(used.values()):.0f}: {shares}"
            )
