"""A child that tells where it comes from: the number of the process that imported it, of its parent, a random number."""

import os
import random

from warren_broker.worker.channel import Channel

IMPORTED_IN = os.getpid()


def main() -> None:
    channel = Channel.inherited()
    while (question := channel.receive()) is not None:
        answers = {
            b"imported in": IMPORTED_IN,
            b"parent": os.getppid(),
            b"random": random.getrandbits(62),
        }
        channel.send(b"%d" % answers[question])
