"""The demo with no lag and with one batch of it: what reward it reaches, and after how many updates.

A run ends as the demo does, at its goal, or after `steps` batches if it never gets there.
"""

import tempfile
from pathlib import Path

from warren import connect
from warren_schemas.config import TrainConfig
from warren_schemas.http import RunResult
from warren_up.demo import free_port
from warren_up.process import run as run_in_loop
from warren_up.recipe import guess_config
from warren_up.site import Site, running
from warren_up.start_view import Unheard

LAGS = (0, 1)


def lag(seeds: list[int], steps: int) -> None:
    rewards: dict[int, list[float]] = {max_staleness: [] for max_staleness in LAGS}
    for seed in seeds:
        for max_staleness in LAGS:
            result = _train(_config(seed, steps, max_staleness))
            rewards[max_staleness].append(result.reward_after or 0.0)
            print(
                f"seed {seed}, max_staleness {max_staleness}: {result.reward_after:.3f} after"
                f" {result.updates} updates of {result.episodes} episodes, {result.wall_s:.0f} s,"
                f" most stale {result.max_staleness_seen}",
                flush=True,
            )
    for max_staleness, reached in rewards.items():
        print(f"max_staleness {max_staleness}: mean reward {sum(reached) / len(reached):.3f}")


def _config(seed: int, steps: int, max_staleness: int) -> TrainConfig:
    demo = guess_config(seed=seed, steps=steps)
    algorithm = demo.algorithm.model_copy(update={"max_staleness": max_staleness})
    return demo.model_copy(update={"algorithm": algorithm})


def _train(config: TrainConfig) -> RunResult:
    site = Site(Path(tempfile.mkdtemp(prefix="warren-lag-")), free_port())

    async def train() -> RunResult:
        async with running(site, Unheard()):
            api_key = site.key_file.read_text().strip()
            async with connect(site.url, api_key) as client:
                run = await client.train(config)
                return await run.result()

    return run_in_loop(train, site)
