from collections.abc import Sequence

class Logprob:
    logprob: float

class CompletionOutput:
    token_ids: Sequence[int]
    logprobs: Sequence[dict[int, Logprob]] | None
    finish_reason: str | None

class RequestOutput:
    request_id: str
    outputs: list[CompletionOutput]
    finished: bool
    num_cached_tokens: int | None
    prompt_logprobs: Sequence[dict[int, Logprob] | None] | None
