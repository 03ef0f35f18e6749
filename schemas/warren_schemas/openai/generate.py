"""Tokens in, tokens out, in the manner of vLLM's `/inference/v1/generate`."""

from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.base import Frozen, Listed
from warren_schemas.config import NonNegativeInt, PositiveInt
from warren_schemas.config.sampling import MinP, RepetitionPenalty, TopP
from warren_schemas.openai.answers import ChatLogprobs, Usage
from warren_schemas.openai.requests import (
    MAX_ANSWERS,
    LogprobsOfText,
    Temperature,
    TokenIds,
    Words,
)


class SamplingParams(Frozen):
    """How the answers are drawn, by the names of vLLM's `SamplingParams`."""

    n: Annotated[int, Field(ge=1, le=MAX_ANSWERS)] = 1
    temperature: Temperature = 1.0
    top_p: TopP = 1.0
    top_k: Annotated[int, Field(ge=-1)] = 0
    """0 and -1 are off."""
    min_p: MinP = 0.0
    repetition_penalty: RepetitionPenalty = 1.0
    max_tokens: PositiveInt = 16
    """Most tokens of an answer."""
    stop: Words | Listed[Words] | None = None
    logprobs: LogprobsOfText | None = None
    """0 or 1: add the logprob of each sampled token. There are none of other tokens."""


class GenerateRequest(Frozen):
    model: Words
    """A base model, `RUN` for a run's newest policy, or `RUN@VERSION` for one that stays."""
    token_ids: TokenIds
    """The prompt. No chat template is applied and nothing is added."""
    sampling_params: SamplingParams = SamplingParams()
    request_id: Words | None = None
    """Told in the answer; null: one is made."""
    stream: Literal[False] = False
    """Answers come whole."""


class GenerateChoice(Frozen):
    index: NonNegativeInt
    token_ids: tuple[int, ...]
    """What was sampled, with the token that ended it."""
    versions: tuple[int, ...]
    """Of the policy, one for each token."""
    finish_reason: Literal["stop", "length"]
    logprobs: ChatLogprobs | None = None


class GenerateResponse(Frozen):
    request_id: str
    model: str
    created: NonNegativeInt
    choices: tuple[GenerateChoice, ...]
    usage: Usage
