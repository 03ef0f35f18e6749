"""Run one measurement: `python -m benchmarks.flow staleness`; see the package."""

import argparse
import asyncio

from benchmarks.flow.endurance import endurance
from benchmarks.flow.hop import hop
from benchmarks.flow.lag import lag
from benchmarks.flow.outages import outages
from benchmarks.flow.staleness import staleness
from benchmarks.flow.workers import workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("staleness").add_argument("--steps", type=int, default=30)
    scaling = what.add_parser("workers")
    scaling.add_argument("--live", type=int, default=2000)
    scaling.add_argument("--seconds", type=float, default=15.0)
    what.add_parser("hop").add_argument("--seconds", type=float, default=15.0)
    what.add_parser("outages").add_argument("--steps", type=int, default=40)
    long = what.add_parser("endurance")
    long.add_argument("--episodes", type=int, default=1_000_000)
    long.add_argument("--minutes", type=float, default=600.0)
    learning = what.add_parser("lag")
    learning.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    learning.add_argument("--steps", type=int, default=1500)
    given = parser.parse_args()
    match given.what:
        case "staleness":
            asyncio.run(staleness(given.steps))
        case "workers":
            asyncio.run(workers(given.live, given.seconds))
        case "hop":
            asyncio.run(hop(given.seconds))
        case "outages":
            asyncio.run(outages(given.steps))
        case "lag":
            lag(given.seeds, given.steps)
        case _:
            asyncio.run(endurance(given.episodes, given.minutes))


if __name__ == "__main__":
    main()
