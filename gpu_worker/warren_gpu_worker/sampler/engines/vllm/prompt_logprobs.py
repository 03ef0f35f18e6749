"""Logprobs of a prompt's tokens as vLLM tells them: a map for each token but the first."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from warren_gpu_worker.sampler.engines.port import Request
from warren_schemas.token_options import PromptLogprobs

_LOWEST = -99999.0
"""Of an alternative that there is not."""


class Logprob(Protocol):
    logprob: float


Told = Mapping[int, Logprob]


def told_prompt(request: Request, told_T: Sequence[Told | None] | None) -> PromptLogprobs | None:
    """None where the request asks for none."""
    n_top = request.options.n_top
    if n_top is None or told_T is None:
        return None
    ids = request.prompt_ids_T.tolist()
    own = [
        0.0 if told is None else _finite(told[token].logprob)
        for token, told in zip(ids, told_T, strict=True)
    ]
    best = [_best(told, n_top) for told in told_T]
    return PromptLogprobs(
        prompt_logprobs_T=np.array(own, np.float32),
        n_top=n_top,
        top_ids_S=np.array([token for row in best for token, _ in row], np.int32),
        top_logprobs_S=np.array([logprob for row in best for _, logprob in row], np.float32),
    )


def _best(told: Told | None, n_top: int) -> list[tuple[int, float]]:
    """The most probable ones, best first; vLLM tells the token itself beside them."""
    if told is None:
        return [(0, 0.0)] * n_top
    ranked = sorted(told.items(), key=lambda item: -item[1].logprob)[:n_top]
    found = [(token, _finite(one.logprob)) for token, one in ranked]
    return found + [(0, _LOWEST)] * (n_top - len(found))


def _finite(logprob: float) -> float:
    return min(max(logprob, _LOWEST), 0.0)
