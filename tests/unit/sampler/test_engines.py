"""Which engine samples, and from which random numbers."""

import numpy as np
from tests.support.engines import opened
from tests.support.sampling import LIVE

from warren_gpu_worker.sampler.engines.port import Request
from warren_schemas.config import Sampling


def sampled(folder: str, seed: int | None) -> list[int]:
    """What a sampler that has just begun says first."""
    with opened("transformers", folder, seed=seed) as engine:
        engine.load(LIVE, 0, None)
        request = Request(1, LIVE, np.arange(3, 9, dtype=np.int32), Sampling(max_tokens=40))
        engine.add_requests([request])
        while engine.has_work:
            for answer in engine.step():
                assert isinstance(answer, Request)
                return answer.ids_T.tolist()
    raise AssertionError("it had no answer")


def test_two_samplers_that_begin_alike_answer_alike_only_if_told_to(
    tiny_models: dict[str, str],
) -> None:
    told = [sampled(tiny_models["warren/tiny"], 7) for _ in range(2)]
    assert told[0] == told[1]
    assert len({tuple(sampled(tiny_models["warren/tiny"], None)) for _ in range(3)}) > 1
