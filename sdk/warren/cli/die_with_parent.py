"""Runs a module that dies with the process that started it: `python -m warren.cli.die_with_parent MODULE ARGUMENTS`.

For programs that are not ours: even a kill of `warren`, which it can't answer, leaves none of them behind.
"""

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1


def command(module: str, *arguments: str) -> list[str]:
    """What to start instead of `python -m MODULE ARGUMENTS`."""
    return [sys.executable, "-m", __spec__.name, str(os.getpid()), module, *arguments]


def main() -> None:
    _, parent, module, *arguments = sys.argv
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != int(parent):
            os._exit(1)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
