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


def parameters_of(
    request: Request, end_ids: Sequence[int], mask_arguments: dict[str, int] | None = None
) -> SamplingParams:
    """For one request; what ends it is decided here, `end_ids` aside, where vLLM need not look.

    `mask_arguments`: of a request that is truncated by `masks` and not by vLLM.
    """
    sampling, by_vllm = request.sampling, mask_arguments is None
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p if by_vllm else 1.0,
        top_k=sampling.top_k if by_vllm else 0,
        min_p=sampling.min_p if by_vllm else 0.0,
        extra_args=mask_arguments,
        repetition_penalty=sampling.repetition_penalty,
        max_tokens=request.max_new_tokens,
        logprobs=0,
        ignore_eos=True,
        stop_token_ids=list(end_ids),
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
