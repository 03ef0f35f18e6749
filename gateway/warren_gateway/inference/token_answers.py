"""What the samplers answered -> tokens, logprobs and versions, in the manner of vLLM."""

import time
from collections.abc import Sequence

from warren_gateway.inference.answers import named_logprobs, sampled, usage
from warren_schemas.episode import Step
from warren_schemas.ids import new_id
from warren_schemas.openai import GenerateChoice, GenerateRequest, GenerateResponse


def told_tokens(request: GenerateRequest, steps: Sequence[Step]) -> GenerateResponse:
    wants_logprobs = request.sampling_params.logprobs is not None
    return GenerateResponse(
        request_id=request.request_id or new_id("gen"),
        model=request.model,
        created=int(time.time()),
        choices=tuple(_choice(i, step, wants_logprobs) for i, step in enumerate(steps)),
        usage=usage(steps),
    )


def _choice(index: int, step: Step, wants_logprobs: bool) -> GenerateChoice:
    ids, logprobs, versions = sampled(step)
    return GenerateChoice(
        index=index,
        token_ids=tuple(ids),
        versions=tuple(versions),
        finish_reason=step.finish.value,
        logprobs=named_logprobs(ids, logprobs) if wants_logprobs else None,
    )
