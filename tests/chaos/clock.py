"""`python -m tests.chaos.clock MODULE …`: a program whose clock can be set while it runs.

The time of day is shifted by the number that `CHAOS_CLOCK` holds, a file of eight bytes. The
monotonic clock goes on as it was, as it does when somebody sets the clock of a machine.
"""

import mmap
import os
import runpy
import struct
import sys
import time
from pathlib import Path

VARIABLE = "CHAOS_CLOCK"
_FORMAT = "d"
_NS = 1_000_000_000


def set_shift(path: Path, shift_s: float) -> None:
    """Make the file, or step the clock of whoever runs by it."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.write(struct.pack(_FORMAT, shift_s))


def shift_time(path: Path) -> None:
    """Let this process live by the file."""
    with path.open("rb") as file:
        shift = mmap.mmap(file.fileno(), struct.calcsize(_FORMAT), access=mmap.ACCESS_READ)
    real_time, real_time_ns = time.time, time.time_ns

    def shift_s() -> float:
        return float(struct.unpack_from(_FORMAT, shift)[0])

    setattr(time, "time", lambda: real_time() + shift_s())  # noqa: B010 - the checker sees a function
    setattr(time, "time_ns", lambda: real_time_ns() + int(shift_s() * _NS))  # noqa: B010


def main() -> None:
    shift_time(Path(os.environ[VARIABLE]))
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
