"""A trainer's child that may be doomed: it is killed by SIGKILL in the middle of op N, at a place that depends on N, once.

That is so where the last part of its settings' `checkpoint_url` is `op-N`.
"""

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from warren_broker.worker.channel import Channel
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.child import main as child_main
from warren_gpu_worker.trainer.child.engine import Engine
from warren_schemas.ids import ModelId
from warren_schemas.training import OpBody, OpOutcome

LONGEST_WAY = 40_000
"""Calls and returns after which the doomed op is interrupted at the latest."""


def main() -> None:
    channel = Channel.inherited()
    settings = GpuWorkerSettings.model_validate_json(channel.arguments[0])
    child_main.run(channel, _engine_type(Path(settings.checkpoint_url)))


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
