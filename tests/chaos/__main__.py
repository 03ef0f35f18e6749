"""`python -m tests.chaos --faults 1000`: the long storm, and a report of what was injected and found."""

import argparse
import asyncio
import logging
from pathlib import Path

from tests.chaos.plan import make_plan
from tests.chaos.site import new_home, open_site
from tests.chaos.storm import Report, weather
from tests.support.processes import until_none

GAP_S = 1.2
MAX_MODELS = 3
"""Of each GPU worker: less than there are jobs."""


async def storm(folder: Path, n_faults: int, seed: int, *, gap_s: float = GAP_S) -> Report:
    """Raises `AssertionError` if a promise was broken, or a process is left."""
    async with open_site(
        folder, n_gateways=2, n_gpu_workers=2, n_env_workers=3, CHAOS_MAX_MODELS=str(MAX_MODELS)
    ) as site:
        report = await weather(site, make_plan(seed, n_faults, gap_s=gap_s), seed=seed)
        await asyncio.to_thread(site.stop)
        try:
            await until_none(site.left_behind)
        except AssertionError as error:
            error.add_note(f"before that:\n{report}")
            raise
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--gap-s", type=float, default=GAP_S, help="between two faults, in the mean"
    )
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    folder = new_home()
    print(f"logs lie in {folder}")
    print(asyncio.run(storm(folder, given.faults, given.seed, gap_s=given.gap_s)))
    print("0 lost, 0 doubled, nothing left behind")


if __name__ == "__main__":
    main()
