"""A sampler's child that samples nothing: each turn is answered at once, by as many tokens as were asked for."""

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
from warren_schemas.episode import FinishReason

CONTEXT_LENGTH = 1_000_000
STATISTICS = EngineStatistics(0, 0, 0, 0, 0, 0)
TOKEN, LOGPROB = 5, -1.0


def turn(request: TurnRequest) -> FinishedTurn:
    n = request.sampling.max_tokens
    return FinishedTurn(
        id=request.id,
        prompt_ids_T=np.zeros(0, np.int32),
        ids_T=np.full(n, TOKEN, np.int32),
        logprobs_T=np.full(n, LOGPROB, np.float32),
        versions_T=np.zeros(n, np.int32),
        text="",
        finish=FinishReason.LENGTH,
    )


def main() -> None:
    channel = Channel.inherited()
    channel.send(pack(Ready(CONTEXT_LENGTH)))
    while (frame := channel.receive()) is not None:
        if requests := unpack_orders(frame).requests:
            channel.send(pack(Report([turn(request) for request in requests], STATISTICS)))


if __name__ == "__main__":
    main()
