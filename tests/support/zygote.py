"""Trainer children by fork: one process imports torch, and each child costs milliseconds.

    python -m tests.support.zygote SOCKET

`tests.support.forked_child` stands in for the trainer's child: it hands its end of the
conversation to the zygote, whose fork runs the real child's `main`, and it ends
when that ends. A settings' `checkpoint_url` that ends in `op-N` dooms the child: it is killed by
SIGKILL in the middle of op N, at a place that depends on N, once.
"""

import os
import random
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import peft
import transformers

from warren_broker.worker.channel import Channel
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.child import main as child_main
from warren_gpu_worker.trainer.child.engine import Engine
from warren_schemas.ids import ModelId
from warren_schemas.training import OpBody, OpOutcome

LONGEST_WAY = 40_000
"""Calls and returns after which the doomed op is interrupted at the latest."""


def main() -> None:
    assert peft and transformers  # imported for the children
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            _fork(listener, connection)


def _fork(listener: socket.socket, connection: socket.socket) -> None:
    with connection:
        _, fds, _, _ = socket.recv_fds(connection, 1, 1)
        zygote = os.getpid()
        if os.fork() != 0:
            os.close(fds[0])
            return
        listener.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.update({"WARREN_CHILD_FD": str(fds[0]), "WARREN_PARENT_PID": str(zygote)})
        try:
            channel = Channel.inherited()
            settings = GpuWorkerSettings.model_validate_json(channel.arguments[0])
            child_main.run(channel, _engine_type(Path(settings.checkpoint_url)))
        finally:
            os._exit(0)


def _engine_type(folder: Path) -> type[Engine]:
    kind, _, number = folder.name.partition("-")
    return _doomed(int(number), folder.with_suffix(".died")) if kind == "op" else Engine


def _doomed(doomed: int, mark: Path) -> type[Engine]:
    class DoomedEngine(Engine):
        def apply(self, model_id: ModelId, number: int, body: OpBody) -> OpOutcome:
            if number != doomed or mark.exists():
                return super().apply(model_id, number, body)
            mark.touch()
            way = int(LONGEST_WAY ** random.Random(doomed).random())
            sys.setprofile(_killer(way))
            super().apply(model_id, number, body)
            os.kill(os.getpid(), signal.SIGKILL)  # the op is applied, and nobody knows
            raise AssertionError("dead")

    return DoomedEngine


def _killer(way: int) -> Callable[[FrameType, str, object], None]:
    left = way

    def step(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


if __name__ == "__main__":
    main()
