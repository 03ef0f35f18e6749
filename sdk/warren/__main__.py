"""The `warren` command and `python -m warren`."""

import sys

from warren.cli.app import run
from warren.cli.guard import guarded


def main() -> None:
    tokens = sys.argv[1:]
    sys.exit(guarded(lambda: run(tokens), tokens))


if __name__ == "__main__":
    main()
