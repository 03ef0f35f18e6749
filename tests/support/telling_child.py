"""A child that tells what it is, as JSON, and then ends as it is asked to."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from warren_broker.worker.channel import Channel
from warren_broker.worker.parent import FD_VARIABLE


def main() -> None:
    handlers = {number: repr(signal.getsignal(number)) for number in signal.valid_signals()}
    conversation = int(os.environ[FD_VARIABLE])
    channel = Channel.inherited()
    channel.send(json.dumps(_itself(handlers, conversation)).encode())
    match channel.receive():
        case b"raise":
            raise ValueError("as asked")
        case b"exit":
            sys.exit(3)
        case b"print":
            os.write(1, b"out ")
            os.write(2, b"err ")
        case b"leave":
            left = subprocess.Popen(["sleep", "3600"], process_group=0)
            channel.send(b"%d" % left.pid)
        case _:
            pass


def _itself(handlers: dict[signal.Signals, str], conversation: int) -> dict[str, object]:
    own, spec = os.getpid(), sys.modules["__main__"].__spec__
    return {
        "variables": dict(os.environ),
        "arguments": sys.argv,
        "command": Path("/proc/self/cmdline").read_text().strip("\0").split("\0"),
        "path": sys.path,
        "folder": os.getcwd(),
        "module": spec and spec.name,
        "descriptors": sorted({*map(int, os.listdir("/proc/self/fd"))} - {conversation}),
        "standard": [os.readlink(f"/proc/self/fd/{number}") for number in range(3)],
        "leads": (os.getsid(0) == own, os.getpgid(0) == own),
        "handlers": handlers,
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "umask": os.umask(0o022),
        "threads": threading.active_count(),
    }


if __name__ == "__main__":
    main()
