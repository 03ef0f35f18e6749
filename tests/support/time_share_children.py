"""A sampler's and a trainer's child that need the same memory: a file that one alone can lock.

A child that needs the memory while the other one has it ends, and leaves a note beside the file. One
that dies has let go of it, as with a GPU. The sampler's base model says how it behaves.
"""

import fcntl
import os
import signal
import time
from pathlib import Path

import numpy as np

from warren_broker.worker.channel import Channel
from warren_gpu_worker.sampler.engines.port import EngineStatistics
from warren_gpu_worker.sampler.messages import (
    FinishedTurn,
    Ready,
    Report,
    TurnRequest,
    pack,
    unpack_orders,
)
from warren_gpu_worker.trainer import messages as training
from warren_schemas.episode import FinishReason
from warren_schemas.training import OpDone, SaveState, is_full

VARIABLE = "WARREN_TEST_MEMORY"
WORK_S = 0.005
STATISTICS = EngineStatistics(0, 0, 0, 0, 0, 0)


class Memory:
    """Held from the first `take` to `free`."""

    def __init__(self) -> None:
        self._path = Path(os.environ[VARIABLE])
        self._file = self._path.open("a")

    def take(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.note("crowded")
            os._exit(9)

    def note(self, what: str) -> bool:
        """Whether it is new."""
        file = self._path.with_suffix(f".{what}")
        is_new = not file.exists()
        file.touch()
        return is_new

    def free(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)


class Sampler:
    def __init__(self, channel: Channel, how: str) -> None:
        self._channel = channel
        self._memory = Memory()
        self._memory.take()
        self._is_asleep = False
        self._how = how if self._memory.note("sampled") else "obeys"

    def run(self) -> None:
        """A child that misbehaves is followed by one that doesn't."""
        waiting: list[TurnRequest] = []
        self._channel.send(pack(Ready(512)))
        while (frame := self._channel.receive()) is not None:
            if self._is_asleep and self._how == "dies asleep":
                os.kill(os.getpid(), signal.SIGKILL)
            orders = unpack_orders(frame)
            waiting += orders.requests
            self._rest(orders.sleep)
            answers = [] if self._is_asleep else [_answer(request) for request in waiting]
            if answers:
                time.sleep(WORK_S)
                waiting.clear()
            self._channel.send(pack(Report([*answers], STATISTICS, self._is_asleep)))

    def _rest(self, sleep: bool | None) -> None:
        if sleep is True and self._how != "never sleeps":
            self._memory.free()
            self._memory.note("slept")
            self._is_asleep = True
        elif sleep is False and self._how != "never wakes":
            self._memory.take()
            self._is_asleep = False


def _answer(request: TurnRequest) -> FinishedTurn:
    none = np.zeros(0, np.int32)
    logprobs = none.astype(np.float32)
    return FinishedTurn(request.id, none, none, logprobs, none, "", FinishReason.STOP)


def train(channel: Channel) -> None:
    """A full-parameter model needs the memory; an op that saves a state named `die` is the last."""
    memory, full = Memory(), set[str]()
    channel.send(training.pack(training.Ready()))
    while (frame := channel.receive()) is not None:
        match training.unpack_order(frame):
            case training.Offload():
                memory.free()
                channel.send(training.pack(training.Offloaded()))
            case training.Open(model, epoch, spec):
                if is_full(spec):
                    full.add(model)
                    memory.take()
                channel.send(training.pack(training.Answer(model, epoch, 0, OpDone(version=0))))
            case training.Apply(model, epoch, ((number, body),)):
                if model in full:
                    memory.take()
                time.sleep(WORK_S)
                if isinstance(body, SaveState) and body.name == "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                done = OpDone(version=0)
                channel.send(training.pack(training.Answer(model, epoch, number, done)))
            case _:
                pass


def main() -> None:
    """A sampler's child is told its base model, a trainer's its rank and a meeting."""
    channel = Channel.inherited()
    arguments = channel.arguments[1:]
    if len(arguments) == 1:
        Sampler(channel, arguments[0]).run()
    else:
        train(channel)


if __name__ == "__main__":
    main()
