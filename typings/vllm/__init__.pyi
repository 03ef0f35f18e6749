# What Warren uses of vLLM (0.32), so that types are checked the same with and without it installed.

from collections.abc import Mapping, Sequence

from vllm.sampling_params import RequestOutputKind

class SamplingParams:
    extra_args: Mapping[str, int] | None
    def __init__(
        self,
        *,
        temperature: float = ...,
        top_p: float = ...,
        top_k: int = ...,
        min_p: float = ...,
        repetition_penalty: float = ...,
        max_tokens: int = ...,
        logprobs: int = ...,
        prompt_logprobs: int | None = ...,
        seed: int | None = ...,
        ignore_eos: bool = ...,
        stop_token_ids: Sequence[int] = ...,
        detokenize: bool = ...,
        extra_args: Mapping[str, int] | None = ...,
        output_kind: RequestOutputKind = ...,
    ) -> None: ...
