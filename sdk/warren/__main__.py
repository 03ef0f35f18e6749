"""The `warren` command and `python -m warren`."""

import gc
import sys

from warren.cli.app import run
from warren.cli.guard import guarded

GC_THRESHOLDS = (100_000, 10, 10)
"""What is imported is no garbage: at the defaults, looking through it takes a sixth of the start of a server."""


def main() -> None:
    gc.set_threshold(*GC_THRESHOLDS)
    tokens = sys.argv[1:]
    sys.exit(guarded(lambda: run(tokens), tokens))


if __name__ == "__main__":
    main()
