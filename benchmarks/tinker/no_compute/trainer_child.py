"""A trainer's child that trains nothing: each op is answered at once, and every logprob is the same.

Legend: `_N` tokens of all sequences laid end to end.
"""

import numpy as np

from warren_broker.worker.channel import Channel
from warren_gpu_worker.trainer.messages import (
    Answer,
    Apply,
    ApplyBatched,
    Close,
    Fail,
    Offload,
    Open,
    Ready,
    pack,
    unpack_order,
)
from warren_schemas.ids import ModelId
from warren_schemas.training import Forward, ForwardBackward, OpBody, OpDone, OptimStep, SaveState

LOGPROB = -1.0


def outcome(version: int, body: OpBody) -> OpDone:
    match body:
        case Forward() | ForwardBackward():
            logprobs_N = np.full(body.batch.ids_N.size, LOGPROB, np.float32)
            return OpDone(version=version, metrics={"loss:sum": 0.5}, logprobs_N=logprobs_N)
        case SaveState(name=name):
            return OpDone(version=version, checkpoint_url=f"memory://{name}")
        case _:
            return OpDone(version=version)


class NoTrainer:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._versions: dict[ModelId, int] = {}

    def run(self) -> None:
        self._channel.send(pack(Ready()))
        while (frame := self._channel.receive()) is not None:
            match unpack_order(frame):
                case Open() as order:
                    self._versions[order.model] = 0
                    self._answer(order.model, order.epoch, 0, OpDone(version=0))
                case Apply() as order:
                    self._apply(order)
                case ApplyBatched() as order:
                    for part in order.applies:
                        self._apply(part)
                case Fail() | Close() | Offload():
                    pass

    def _apply(self, order: Apply) -> None:
        for number, body in order.ops:
            if isinstance(body, OptimStep):
                self._versions[order.model] += 1
            done = outcome(self._versions[order.model], body)
            self._answer(order.model, order.epoch, number, done)

    def _answer(self, model: ModelId, epoch: int, number: int, done: OpDone) -> None:
        self._channel.send(pack(Answer(model, epoch, number, done)))


if __name__ == "__main__":
    NoTrainer(Channel.inherited()).run()
