"""A sampler's child that does nothing but misbehave; its base model's name says how.

One that `relapses` is broken whenever there is something where its base model should lie.
"""

import os
import signal
import time
from pathlib import Path

import numpy as np

from warren_broker.worker.channel import Channel
from warren_gpu_worker.sampler.engines.port import EngineStatistics, Refusal
from warren_gpu_worker.sampler.messages import (
    Broken,
    FinishedTurn,
    Ready,
    Report,
    TurnRequest,
    pack,
    unpack_orders,
)
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.episode import FinishReason

STATISTICS = EngineStatistics(0, 0, 0, 0, 0, 0)


def answer(request: TurnRequest) -> FinishedTurn:
    none = np.zeros(0, np.int32)
    return FinishedTurn(
        request.id, none, none, none.astype(np.float32), none, str(os.getpid()), FinishReason.STOP
    )


def main() -> None:
    channel = Channel.inherited()
    how = channel.arguments[1]
    if how == "broken":
        channel.send(pack(Broken("it has no chat template")))
        return
    if how == "stillborn":
        os._exit(3)
    if how == "always-killed":
        os.kill(os.getpid(), signal.SIGKILL)
    folder = GpuWorkerSettings.model_validate_json(channel.arguments[0]).base_models[how]
    if how == "relapses" and Path(folder).exists():
        channel.send(pack(Broken("there is no memory left on the device")))
        return
    if how == "killed-once" and not Path(folder).exists():
        Path(folder).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    channel.send(pack(Ready(512)))
    while (frame := channel.receive()) is not None:
        requests = unpack_orders(frame).requests
        if how in ("dies", "relapses") and any(
            request.forced_action == "die" for request in requests
        ):
            os._exit(4)
        if how == "hangs" and any(request.forced_action == "hang" for request in requests):
            time.sleep(3600)
        n_times = 2 if how == "repeats" else 1
        answers: list[FinishedTurn | Refusal] = [
            answer(r) for r in requests for _ in range(n_times)
        ]
        channel.send(pack(Report(answers, STATISTICS)))


if __name__ == "__main__":
    main()
