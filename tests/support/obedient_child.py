"""A child process that does what it is told, for tests of those who start children.

Frames: `echo ...` comes back, `exit N` ends it, `hang` stops listening for ever, `have a child`
starts a sleeping process in the same group and answers its pid, `threads` answers OMP_NUM_THREADS.
"""

import os
import subprocess
import sys
import time

from warren_broker.worker.child import Channel


def main() -> None:
    channel = Channel.inherited()
    while (frame := channel.receive()) is not None:
        order, _, rest = frame.partition(b" ")
        match order:
            case b"echo":
                channel.send(rest)
            case b"exit":
                sys.exit(int(rest))
            case b"hang":
                time.sleep(3600)
            case b"have":
                sleeper = subprocess.Popen(["sleep", "3600"])
                channel.send(b"%d" % sleeper.pid)
            case b"threads":
                channel.send(os.environ["OMP_NUM_THREADS"].encode())
            case _:
                sys.exit(99)


if __name__ == "__main__":
    main()
