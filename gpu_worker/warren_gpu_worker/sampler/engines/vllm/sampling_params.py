"""Sampling settings as vLLM takes them, and those that it doesn't."""

from collections.abc import Sequence

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind

from warren_gpu_worker.sampler.engines.port import Refusal, Request
from warren_schemas.episode import FailureKind

_LOWEST_TEMPERATURE = 0.01


def too_cold(request: Request) -> Refusal | None:
    """Below the lowest temperature vLLM would silently take that one; 0 is greedy."""
    if not 0 < request.sampling.temperature < _LOWEST_TEMPERATURE:
        return None
    reason = f"vLLM has no temperature between 0 and {_LOWEST_TEMPERATURE}; take 0"
    return Refusal(request.id, FailureKind.INVALID_REQUEST, reason)


def parameters_of(request: Request, end_ids: Sequence[int]) -> SamplingParams:
    """For one request; what ends it is decided here, `end_ids` aside, where vLLM need not look."""
    sampling = request.sampling
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        max_tokens=request.max_new_tokens,
        logprobs=0,
        ignore_eos=True,
        stop_token_ids=list(end_ids),
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
