"""`python -m tests.fuzz --messages 100000 --seed 1`."""

import argparse
import asyncio
import logging
import sys
import time

from tests.fuzz.messages import fuzz


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzzed messages to a deployment that runs")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # a line for each message
    began_s = time.monotonic()
    told = asyncio.run(fuzz(options.messages, options.seed))
    for name, n in sorted(told.sent.items()):
        print(f"{name:16} {n:9,}")
    took_s = time.monotonic() - began_s
    print(
        f"{told.sent.total():,} messages, {told.n_queued:,} of them to queues and now in `dead`, in {took_s:.0f} s"
    )
    print(f"a run afterwards: {told.outcome}")
    sys.exit(told.outcome != "completed")


if __name__ == "__main__":
    main()
