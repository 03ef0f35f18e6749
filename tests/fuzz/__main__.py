"""`python -m tests.fuzz --messages 100000 --seed 1`: four fifths in process, the others at a RabbitMQ."""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.messages import Told, fuzz
from tests.support.one_process import on_rabbitmq
from tests.support.private_rabbit import PrivateRabbit


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzzed messages to a deployment that runs")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # a line for each message
    n_at_server = options.messages // 5
    print("== in process", flush=True)
    began_s = time.monotonic()
    is_good = _show(asyncio.run(fuzz(options.messages - n_at_server, options.seed)), began_s)
    print("== RabbitMQ", flush=True)
    began_s = time.monotonic()
    rabbit = PrivateRabbit(Path(tempfile.mkdtemp(prefix="warren-fuzz-")))
    try:
        told = asyncio.run(fuzz(n_at_server, options.seed, lambda: on_rabbitmq(rabbit)))
        is_good &= _show(told, began_s)
    finally:
        rabbit.close()
    sys.exit(not is_good)


def _show(told: Told, began_s: float) -> bool:
    """Whether all that must hold does."""
    for counts in (told.sent, told.addresses):
        print(", ".join(f"{name} {n:,}" for name, n in sorted(counts.items())))
    print(
        f"{told.sent.total():,} messages in {time.monotonic() - began_s:.0f} s;"
        f" {told.n_malformed:,} malformed ones in queues, {told.n_dead:,} letters in `dead`,"
        f" left in queues: {told.left or 'none'}; processes that died: {len(told.died)}"
    )
    print(
        f"the run during it: {told.during}{told.why and f' ({told.why})'}; a run afterwards: {told.outcome}; a replay: {told.replayed}"
    )
    return told.is_good


if __name__ == "__main__":
    main()
