"""`python -m benchmarks.scheduling [--seed 1]`: both tables of docs/scheduling.md."""

import argparse

from benchmarks.scheduling import day, decisions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--decisions", type=int, default=500)
    options = parser.parse_args()
    decisions.measure(options.decisions, options.seed)
    day.measure(options.seed)


if __name__ == "__main__":
    main()
