"""What a client asks of a sampler -> a question; what the samplers answered -> the protocol's message.

A request that can't be served is told as a failed future, with whose doing it is. Alternatives to sampled tokens are asked
for once those are there: as alternatives to the tokens of a prompt that ends with them.

Legend: `_T` tokens of the prompt, `_S` alternatives to tokens, those of one token after those of another.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pydantic import ValidationError

from warren_gateway.coordinator.clients.sampled_versions import MOST_SAMPLED
from warren_gateway.inference.sampler_requests import Answer, Question
from warren_gateway.tinker.answer_room import require_room
from warren_gateway.tinker.asked_prompts import AskedPrompt, plain, prompt_of
from warren_gateway.tinker.chosen_tokens import targets_of, tell_drawn, tell_targets
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

_NO_LIMIT = 1 << 30
"""More tokens than any context; the engine stops where the context ends."""
_USERS = (
    FailureKind.CONTEXT_LENGTH,
    FailureKind.INVALID_REQUEST,
    FailureKind.IMAGES_UNSUPPORTED,
)
_KEPT = (
    f"Weights without a name stay for the {MOST_SAMPLED} samplers of a model that were used last, until their sessions"
    " end; save_weights_for_sampler keeps them under a name"
)


def question_of(asked: Sample, policy: PolicyRef) -> Question:
    """Raises `CantSample`."""
    try:
        return _question(asked, policy)
    except ValidationError as error:
        raise CantSample("; ".join(explain(error))) from error


def _question(asked: Sample, policy: PolicyRef) -> Question:
    _require_offered(asked)
    prompt = prompt_of(asked.prompt.chunks, asked.num_samples)
    question = Question(
        policy=policy,
        transcript=prompt.transcript,
        sampling=_sampling(asked.sampling_params),
        n=asked.num_samples,
        is_plain=True,
        options=_options(asked, prompt),
    )
    require_room(question, prompt.n_tokens)
    if asked.topk_sample_logprobs:
        later = replace(question, options=_of_sampled(asked))
        require_room(later, prompt.n_tokens)
    return question


def about(asked: Sample, question: Question, answers: Sequence[Answer]) -> list[Question]:
    """What is asked about each answer, where the client wants to know more of it. Raises `CantSample`."""
    steps = [answer for answer in answers if isinstance(answer, Step)]
    if not asked.topk_sample_logprobs or len(steps) < len(answers):
        return []
    alike = replace(question, n=1, sampling=Sampling(max_tokens=1))
    return [_about_sampled(asked, alike, step) for step in steps]


def _about_sampled(asked: Sample, alike: Question, step: Step) -> Question:
    """Of a prompt that goes on with what was sampled."""
    tokens, options = step.transcript.tokens, _of_sampled(asked)
    shown = None if alike.options is None else alike.options.prompt
    require_room(replace(alike, options=options), tokens.ids_T.size)
    if shown is None:
        return replace(alike, transcript=plain(tokens.ids_T), options=options)
    ids_T = np.concatenate([shown.ids_T, tokens.ids_T[tokens.mask_T == 1]])
    longer = shown.model_copy(update={"ids_T": ids_T})
    return replace(alike, options=options.model_copy(update={"prompt": longer}))


def _of_sampled(asked: Sample) -> TokenOptions:
    return TokenOptions(n_top_prompt=asked.topk_sample_logprobs)


def told(asked: Sample, answers: Sequence[Answer], more: Sequence[Answer]) -> Sampled:
    """The protobuf message, or why there is none. `more` is what was answered about the answers: one that fills the
    context is told without alternatives."""
    steps = list[Step]()
    for answer in answers:
        if isinstance(answer, EpisodeEnded):
            return _failed(answer)
        steps.append(answer)
    response = _response(asked, steps)
    for sequence, about_it in zip(response.sequences, more, strict=False):
        if isinstance(about_it, Step):
            _tell_alternatives(sequence, about_it.prompt_logprobs)
        elif _is_not_offered(about_it):
            return _failed(about_it)
    return response.SerializeToString()


def _require_offered(asked: Sample) -> None:
    for name, n in (
        ("topk_prompt_logprobs", asked.topk_prompt_logprobs),
        ("topk_sample_logprobs", asked.topk_sample_logprobs),
        ("prompt_alt_tokens_k", asked.prompt_alt_tokens_k),
    ):
        if not 0 <= n <= MAX_TOP:
            raise CantSample(f"{name} can be 0 to {MAX_TOP}")


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


def _options(asked: Sample, prompt: AskedPrompt) -> TokenOptions:
    seed, targets = asked.sampling_params.seed, asked.target_prompt_logprobs
    return TokenOptions(
        end_ids=_end_ids(asked.sampling_params),
        seed=None if seed is None else seed % MAX_SEED,
        prompt_logprobs=bool(asked.prompt_logprobs),
        n_top_prompt=asked.topk_prompt_logprobs,
        n_drawn_prompt=asked.prompt_alt_tokens_k,
        targets=None if targets is None else targets_of(targets),
        prompt=prompt.with_images,
    )


def _end_ids(params: SampleParams) -> tuple[int, ...] | None:
    """Token ids take the place of the model's own end, and an empty list does; strings come beside it."""
    if params.stop is None or isinstance(params.stop, str):
        return None
    ids = tuple(token for token in params.stop if isinstance(token, int))
    return ids if ids or not params.stop else None


def _is_not_offered(ended: EpisodeEnded) -> bool:
    """Whether the samplers tell no alternatives of such a prompt."""
    outcome = ended.outcome
    return isinstance(outcome, Failed) and outcome.kind is FailureKind.INVALID_REQUEST


def _failed(ended: EpisodeEnded) -> FailedSample:
    outcome = ended.outcome
    if not isinstance(outcome, Failed):
        return FailedSample("The prompt leaves no tokens for an answer", is_users=True)
    is_gone = outcome.kind is FailureKind.POLICY_UNAVAILABLE and ended.spec.policy.pinned
    reason = f"{outcome.reason}. {_KEPT}" if is_gone else outcome.reason
    return FailedSample(reason, is_users=outcome.kind in _USERS)


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
    """Of all of the prompt, or of its last tokens; nothing comes before the first."""
    n, last = prompt.prompt_logprobs_T.size, asked.prompt_logprobs_last_n
    n_untold = 1 if last is None else max(n - last, 1)
    if asked.prompt_logprobs:
        logprobs_T = prompt.prompt_logprobs_T.astype("<f4")
        logprobs_T[:n_untold] = np.nan
        response.prompt_logprobs = logprobs_T.tobytes()
    if asked.topk_prompt_logprobs:
        _fill_top(response.topk_prompt_logprobs, prompt, n_untold=n_untold)
    if prompt.n_drawn:
        tell_drawn(response.prompt_alt_tokens, prompt)
    if asked.target_prompt_logprobs is not None:
        tell_targets(
            response.target_prompt_logprobs, asked.target_prompt_logprobs, prompt.target_logprobs_S
        )


def _tell_alternatives(sequence: messages.SampledSequence, told: PromptLogprobs | None) -> None:
    """Of the tokens that were sampled, which end the prompt that was told of."""
    if told is not None:
        n_sampled = len(sequence.tokens) // 4
        first = told.prompt_logprobs_T.size - n_sampled
        _fill_top(sequence.topk_sampled_logprobs, told, first)


def _fill_top(
    top: messages.TopkLogprobs, prompt: PromptLogprobs, first: int = 0, *, n_untold: int = 0
) -> None:
    """From the token at place `first` on; cells of the first `n_untold` tokens are empty."""
    top_ids_S, top_logprobs_S = prompt.top_ids_S.astype("<i4"), prompt.top_logprobs_S.astype("<f4")
    top_ids_S[: n_untold * prompt.n_top] = 0
    top_logprobs_S[: n_untold * prompt.n_top] = NOTHING
    top.k, top.length = prompt.n_top, prompt.prompt_logprobs_T.size - first
    top.token_ids = top_ids_S[first * prompt.n_top :].tobytes()
    top.logprobs = top_logprobs_S[first * prompt.n_top :].tobytes()


NOTHING = -99999.0
"""Logprob of a cell that is empty."""
