"""A child process that does what it is told, for tests of those who start children.

Frames: `echo ...` comes back, `repeat N` comes back N times as a frame of 100,000 bytes, `exit N`
ends it, `arguments` answers those that it was given, `hang` stops listening for ever, `threads` answers OMP_NUM_THREADS. `fork` makes a process
that sleeps, with all that this one has open, and answers its pid: `fork group` in the same group,
`fork session` in one of its own, `fork nothing` in a session of its own.
"""

import os
import sys
import time

from warren_broker.worker.channel import Channel


def main() -> None:
    channel = Channel.inherited()
    while (frame := channel.receive()) is not None:
        order, _, rest = frame.partition(b" ")
        match order:
            case b"echo":
                channel.send(rest)
            case b"arguments":
                channel.send(" ".join(channel.arguments).encode())
            case b"exit":
                sys.exit(int(rest))
            case b"hang":
                time.sleep(3600)
            case b"repeat":
                for _ in range(int(rest)):
                    channel.send(rest.ljust(100_000))
            case b"fork":
                channel.send(b"%d" % fork(rest))
            case b"threads":
                channel.send(os.environ["OMP_NUM_THREADS"].encode())
            case _:
                sys.exit(99)


def fork(shared: bytes) -> int:
    """A process that shares no more than this with us, besides what is open; its pid."""
    is_apart, apart = os.pipe()
    pid = os.fork()
    if pid == 0:
        if shared == b"session":
            os.setpgid(0, 0)
        elif shared == b"nothing":
            os.setsid()
        os.write(apart, b".")
        time.sleep(3600)
        os._exit(0)
    os.read(is_apart, 1)
    return pid


if __name__ == "__main__":
    main()
