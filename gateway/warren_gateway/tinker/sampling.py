"""What a client asks of a sampler -> a question; what the samplers answered -> the protocol's message.

A request that can't be served is told as a failed future, with whose doing it is. Alternatives to sampled tokens are asked
for once those are there: as alternatives to the tokens of a prompt that ends with them.

Legend: `_T` tokens of the prompt, `_S` alternatives to tokens, those of one token after those of another.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pydantic import ValidationError

from warren_gateway.inference.questions import Answer, Question
from warren_gateway.tinker.samples.answering import CantSample
from warren_gateway.tinker.samples.rows import FailedSample, Sampled
from warren_gateway.tinker.wire import messages
from warren_schemas.config import Sampling
from warren_schemas.episode import (
    EpisodeEnded,
    Failed,
    FailureKind,
    FinishReason,
    PolicyRef,
    Step,
)
from warren_schemas.text.explain import explain
from warren_schemas.tinker.requests import Sample, SampleParams
from warren_schemas.token_options import MAX_SEED, MAX_TOP, PromptLogprobs, TokenOptions
from warren_schemas.transcript import NOT_SAMPLED, Tokens, Transcript

_NO_LIMIT = 1 << 30
"""More tokens than any context; the engine stops where the context ends."""
MOST_PROMPT_TOKENS = 256 * 1024
"""13 bytes of each travel in a message, and an answer is longer than its prompt."""
_USERS = (
    FailureKind.CONTEXT_LENGTH,
    FailureKind.INVALID_REQUEST,
    FailureKind.IMAGES_UNSUPPORTED,
)


def question_of(asked: Sample, policy: PolicyRef) -> Question:
    """Raises `CantSample`."""
    try:
        return _question(asked, policy)
    except ValidationError as error:
        raise CantSample("; ".join(explain(error))) from error


def _question(asked: Sample, policy: PolicyRef) -> Question:
    _require_known(asked)
    ids = [token for chunk in asked.prompt.chunks for token in chunk.tokens]
    if not ids:
        raise CantSample("the prompt has no tokens")
    if len(ids) > MOST_PROMPT_TOKENS:
        raise CantSample(f"the prompt has {len(ids)} tokens; {MOST_PROMPT_TOKENS} are the most")
    return Question(
        policy=policy,
        transcript=_transcript(ids),
        sampling=_sampling(asked.sampling_params),
        n=asked.num_samples,
        is_plain=True,
        options=_options(asked),
    )


def about(asked: Sample, question: Question, answers: Sequence[Answer]) -> list[Question]:
    """What is asked about each answer, where the client wants to know more of it."""
    steps = [answer for answer in answers if isinstance(answer, Step)]
    if not asked.topk_sample_logprobs or len(steps) < len(answers):
        return []
    options = TokenOptions(n_top_prompt=asked.topk_sample_logprobs)
    alike = replace(question, n=1, sampling=Sampling(max_tokens=1), options=options)
    return [
        replace(alike, transcript=_transcript(step.transcript.tokens.ids_T.tolist()))
        for step in steps
    ]


def told(asked: Sample, answers: Sequence[Answer], more: Sequence[Answer]) -> Sampled:
    """The protobuf message, or why there is none. `more` is what was answered about the answers: where it is a refusal,
    as for an answer that fills the context, the answer is told without alternatives."""
    steps = list[Step]()
    for answer in answers:
        if isinstance(answer, EpisodeEnded):
            return _failed(answer)
        steps.append(answer)
    response = _response(asked, steps)
    for sequence, about_it in zip(response.sequences, more, strict=False):
        if isinstance(about_it, Step):
            _tell_alternatives(sequence, about_it.prompt_logprobs)
    return response.SerializeToString()


def _require_known(asked: Sample) -> None:
    for chunk in asked.prompt.chunks:
        if chunk.type != "encoded_text":
            raise CantSample(
                f"the prompt has a chunk of the type {chunk.type}; there are tokens (encoded_text) alone"
            )
    for name, n_top in (
        ("topk_prompt_logprobs", asked.topk_prompt_logprobs),
        ("topk_sample_logprobs", asked.topk_sample_logprobs),
    ):
        if not 0 <= n_top <= MAX_TOP:
            raise CantSample(f"{name} can be 0 to {MAX_TOP}")
    for name, wanted in (
        ("prompt_alt_tokens_k", asked.prompt_alt_tokens_k),
        ("target_prompt_logprobs", asked.target_prompt_logprobs),
    ):
        if wanted:
            raise CantSample(
                f"{name} is not offered here; topk_prompt_logprobs tells up to {MAX_TOP} tokens of a prompt"
            )


def _sampling(params: SampleParams) -> Sampling:
    stop = params.stop
    strings = (
        (stop,) if isinstance(stop, str) else tuple(s for s in stop or () if isinstance(s, str))
    )
    if "" in strings:
        raise CantSample("an empty stop string would end every turn")
    return Sampling(
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=max(params.top_k, 0),
        max_tokens=params.max_tokens or _NO_LIMIT,
        stop=strings,
    )


def _options(asked: Sample) -> TokenOptions:
    seed = asked.sampling_params.seed
    return TokenOptions(
        end_ids=_end_ids(asked.sampling_params),
        seed=None if seed is None else seed % MAX_SEED,
        prompt_logprobs=bool(asked.prompt_logprobs),
        n_top_prompt=asked.topk_prompt_logprobs,
    )


def _end_ids(params: SampleParams) -> tuple[int, ...] | None:
    """Token ids take the place of the model's own end, and an empty list does; strings come beside it."""
    if params.stop is None or isinstance(params.stop, str):
        return None
    ids = tuple(token for token in params.stop if isinstance(token, int))
    return ids if ids or not params.stop else None


def _transcript(ids: list[int]) -> Transcript:
    return Transcript(
        tokens=Tokens(
            ids_T=np.array(ids, np.int32),
            mask_T=np.zeros(len(ids), np.uint8),
            logprobs_T=np.zeros(len(ids), np.float32),
            versions_T=np.full(len(ids), NOT_SAMPLED, np.int32),
        )
    )


def _failed(ended: EpisodeEnded) -> FailedSample:
    outcome = ended.outcome
    if not isinstance(outcome, Failed):
        return FailedSample("The prompt leaves no tokens for an answer", is_users=True)
    return FailedSample(outcome.reason, is_users=outcome.kind in _USERS)


def _response(asked: Sample, steps: Sequence[Step]) -> messages.SampleResponse:
    response = messages.SampleResponse()
    for step in steps:
        tokens, sequence = step.transcript.tokens, response.sequences.add()
        is_sampled_T = tokens.mask_T == 1
        sequence.stop_reason = (
            messages.STOP if step.finish is FinishReason.STOP else messages.LENGTH
        )
        sequence.tokens = tokens.ids_T[is_sampled_T].astype("<i4").tobytes()
        sequence.logprobs = tokens.logprobs_T[is_sampled_T].astype("<f4").tobytes()
    if (prompt := steps[0].prompt_logprobs) is not None:
        _tell_prompt(response, asked, prompt)
    return response


def _tell_prompt(response: messages.SampleResponse, asked: Sample, prompt: PromptLogprobs) -> None:
    """Of all of the prompt, or of its last tokens."""
    logprobs_T = prompt.prompt_logprobs_T.astype("<f4")
    logprobs_T[:1] = np.nan  # nothing comes before it
    last = asked.prompt_logprobs_last_n
    first = 0 if last is None else max(logprobs_T.size - last, 0)
    if asked.prompt_logprobs:
        response.prompt_logprobs = logprobs_T[first:].tobytes()
    if prompt.n_top:
        _fill_top(response.topk_prompt_logprobs, prompt, first)


def _tell_alternatives(sequence: messages.SampledSequence, told: PromptLogprobs | None) -> None:
    """Of the tokens that were sampled, which end the prompt that was told of."""
    if told is not None:
        n_sampled = len(sequence.tokens) // 4
        first = told.prompt_logprobs_T.size - n_sampled
        _fill_top(sequence.topk_sampled_logprobs, told, first)


def _fill_top(top: messages.TopkLogprobs, prompt: PromptLogprobs, first: int) -> None:
    """From the token at place `first` on."""
    top.k, top.length = prompt.n_top, prompt.prompt_logprobs_T.size - first
    top.token_ids = prompt.top_ids_S[first * prompt.n_top :].astype("<i4").tobytes()
    top_logprobs_S = prompt.top_logprobs_S.astype("<f4")
    top_logprobs_S[: prompt.n_top] = NOTHING
    top.logprobs = top_logprobs_S[first * prompt.n_top :].tobytes()


NOTHING = -99999.0
"""Logprob of a cell that is empty."""
