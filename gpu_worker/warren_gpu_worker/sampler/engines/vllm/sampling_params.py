"""Sampling settings as vLLM takes them, and those that it doesn't."""

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind

from warren_gpu_worker.sampler.engines.port import Refusal, Request
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.engines.vllm.masks import KeptSets
from warren_schemas.episode import FailureKind

_LOWEST_TEMPERATURE = 0.01


def unsuited(
    request: Request, fails_at_prompts: bool, *, keeps_masks: bool = True
) -> Refusal | None:
    """Why vLLM would do something else, or fail: below its lowest temperature it would silently take that one
    (0 is greedy), beside its adapters for CPUs the logprobs of a prompt take the whole engine with them, and over
    several GPUs it keeps no sampling masks."""
    reason = None
    if 0 < request.sampling.temperature < _LOWEST_TEMPERATURE:
        reason = f"vLLM has no temperature between 0 and {_LOWEST_TEMPERATURE}; take 0"
    elif fails_at_prompts and request.options.n_top is not None:
        reason = (
            "vLLM on a CPU has no logprobs of prompts beside adapters; --engine transformers has"
        )
    elif request.options.asks_for_chosen:
        reason = (
            "vLLM has prompt logprobs only of the prompt's tokens and the likeliest; --engine transformers has those of"
            " any, and draws others"
        )
    elif not keeps_masks and request.mask_capacity is not None:
        reason = (
            "a sampler with --tensor-parallel or --pipeline-parallel can't tell what top_k, top_p and min_p left, which"
            " training needs; leave them out of the run's sampling, or sample on one GPU"
        )
    return None if reason is None else Refusal(request.id, FailureKind.INVALID_REQUEST, reason)


def parameters_of(request: Request, endings: Endings, kept_sets: KeptSets) -> SamplingParams:
    """For one request; what ends it is decided here, end tokens aside, where vLLM need not look.

    Who keeps a mask is truncated by `masks` and not by vLLM.
    """
    mask_arguments = kept_sets.arguments_of(request)
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
        prompt_logprobs=request.options.n_top,
        seed=request.options.seed,
        ignore_eos=True,
        stop_token_ids=endings.ids_of(request),
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
