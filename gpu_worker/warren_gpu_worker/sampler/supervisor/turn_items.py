"""What a turn is to the engine, to its episode's home, and to its run: pure functions of the items."""

import numpy as np

from warren_broker.topology import Home, home
from warren_gpu_worker.sampler.engines.port import PolicyKey, Refusal
from warren_gpu_worker.sampler.messages import FinishedTurn, PolicySource, Rendered, TurnRequest
from warren_gpu_worker.sampler.supervisor.transcripts import extended, images_of, new_messages
from warren_schemas.envelope import Envelope
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodePurpose,
    Failed,
    FailureKind,
    Generate,
    Outcome,
    Step,
    StopReason,
)
from warren_schemas.ids import WorkerId, made_ms, new_message_id
from warren_schemas.outcome import conclude, concluded
from warren_schemas.sampling_mask import MAX_MASK_IDS
from warren_schemas.transcript import NOT_SAMPLED, Tokens, Transcript

_MOST_TURNS = 1 << 10
"""From here on, more turns don't raise a turn's priority."""

_LASTING = (
    FailureKind.CONTEXT_LENGTH,
    FailureKind.INVALID_REQUEST,
    FailureKind.IMAGES_UNSUPPORTED,
)
"""What another try would meet as well."""
PAST_DEADLINE = Failed(
    kind=FailureKind.DEADLINE, reason="the turn was not finished before the episode's deadline"
)


def objection(item: Generate, base_model: str, now_s: float) -> Failed | None:
    """Why this turn can't or need not be taken."""
    deadline_s = item.envelope.deadline_s
    if deadline_s is not None and deadline_s <= now_s:
        return PAST_DEADLINE
    transcript = item.transcript
    if item.spec.policy.base_model != base_model:
        reason = f"a turn of {item.spec.policy.base_model} came to a sampler of {base_model}"
    elif "" in item.spec.sampling.stop:
        reason = "an empty stop string would end every turn"
    elif transcript.n_rendered > len(transcript.messages):
        reason = "the transcript says that more messages are rendered than it has"
    elif item.learned is not None and (transcript.n_rendered or len(transcript.tokens)):
        reason = "a conversation that is learned has tokens already"
    elif max(item.learned or (), default=0) >= max(1, len(transcript.messages)):
        reason = "a message is to be learned that the transcript has not"
    elif item.is_plain and transcript.n_rendered != _n_rendered_plain(transcript):
        reason = "a plain turn has messages that are not among its tokens"
    elif _has_two_prompts(item):
        reason = "a turn has a prompt with images, and is a chat or has tokens already"
    elif not item.is_plain and (transcript.n_rendered == 0) != (len(transcript.tokens) == 0):
        reason = "the transcript's tokens don't match its rendered messages"
    else:
        return None
    return Failed(kind=FailureKind.INVALID_REQUEST, reason=reason, retryable=False)


def _n_rendered_plain(transcript: Transcript) -> int:
    return len(transcript.messages) if len(transcript.tokens) else 0


def _has_two_prompts(item: Generate) -> bool:
    options = item.token_options
    has_own = options is not None and options.prompt is not None
    return has_own and not (item.is_plain and not len(item.transcript.tokens))


def judged(
    item: Generate, answer: FinishedTurn | Rendered | Refusal
) -> FinishedTurn | Rendered | Outcome:
    """An episode that outgrows its tokens after its first turn is cut there, not failed."""
    if not isinstance(answer, Refusal):
        return _other_tokenizer(item, answer) or answer
    if answer.kind is FailureKind.CONTEXT_LENGTH and item.transcript.turns:
        return conclude(item.spec, item.transcript, StopReason.MAX_TOTAL_TOKENS)
    is_retryable = answer.kind not in _LASTING
    return Failed(kind=answer.kind, reason=answer.reason, retryable=is_retryable)


def _other_tokenizer(item: Generate, turn: FinishedTurn | Rendered) -> Failed | None:
    """Tokens of two vocabularies would make one sequence."""
    before = item.transcript.tokenizer
    if before in ("", turn.tokenizer):
        return None
    base_model = item.spec.policy.base_model
    reason = f"samplers of {base_model} have different tokenizers: {before} and {turn.tokenizer}"
    return Failed(kind=FailureKind.SAMPLER_ERROR, reason=reason)


def home_of(item: Generate) -> Home:
    return home(item.home, item.spec.environment, item.spec.owner)


def request_of(request_id: int, item: Generate) -> TurnRequest:
    policy, transcript = item.spec.policy, item.transcript
    key = PolicyKey(policy.model, policy.min_version if policy.pinned else None)
    return TurnRequest(
        id=request_id,
        policy=PolicySource(key, policy.min_version, policy.url),
        ids_T=transcript.tokens.ids_T,
        messages=new_messages(transcript),
        sampling=item.spec.sampling,
        forced_action=item.forced_action,
        priority=_priority(item),
        is_plain=item.is_plain,
        learned=item.learned,
        images=images_of(transcript),
        mask_capacity=_mask_capacity(item),
        options=item.token_options,
    )


def _mask_capacity(item: Generate) -> int | None:
    """Masks are for the trainer: of what is truncated, sampled, and trained on."""
    is_trained_on = item.spec.purpose is EpisodePurpose.TRAIN and item.forced_action is None
    if not (is_trained_on and item.spec.sampling.is_truncated):
        return None
    mask = item.transcript.tokens.sampling_mask
    return MAX_MASK_IDS - (0 if mask is None else mask.ids_S.size)


def _priority(item: Generate) -> int:
    """Older groups go first, and in a group the episodes that are nearest to their end."""
    return made_ms(item.spec.group) * _MOST_TURNS - min(item.turn, _MOST_TURNS)


def rendered(item: Generate, answer: Rendered) -> tuple[Transcript, Outcome]:
    """The end of a conversation that is learned: its tokens count as sampled by the policy of the run's time, with logprob
    0, like those of demonstrations. Its reward is none, told as 0."""
    ids_T, mask_T = np.frombuffer(answer.ids, np.int32), np.frombuffer(answer.mask, np.uint8)
    version = item.spec.policy.min_version
    tokens = Tokens.model_construct(
        ids_T=ids_T,
        mask_T=mask_T,
        logprobs_T=np.zeros(ids_T.size, np.float32),
        versions_T=np.where(mask_T == 1, version, NOT_SAMPLED).astype(np.int32),
        sampling_mask=None,
    )
    whole = item.transcript.model_copy(
        update={
            "n_rendered": len(item.transcript.messages),
            "tokens": tokens,
            "tokenizer": answer.tokenizer,
        }
    )
    stop = StopReason.MAX_TOTAL_TOKENS if answer.is_cut else StopReason.DONE
    return whole, Completed(reward=0.0, stop=stop)


def step_of(item: Generate, turn: FinishedTurn, return_to: WorkerId | None) -> Step:
    """`return_to` names the sampler that would take the episode's next turn."""
    return Step(
        envelope=_successor_envelope(item),
        spec=item.spec,
        transcript=extended(item.transcript, turn),
        turn=item.turn + 1,
        finish=turn.finish,
        return_to=return_to,
        prompt_logprobs=turn.prompt_logprobs,
    )


def end_of(
    item: Generate, outcome: Rendered | Outcome, worker: WorkerId, *, taken_s: float, now_s: float
) -> EpisodeEnded:
    """The end of the episode, with what was said until then."""
    transcript = concluded(item.transcript)
    if isinstance(outcome, Rendered):
        transcript, outcome = rendered(item, outcome)
    return EpisodeEnded(
        envelope=_successor_envelope(item),
        spec=item.spec,
        transcript=transcript,
        outcome=outcome,
        worker=worker,
        started_s=taken_s,
        ended_s=now_s,
    )


def _successor_envelope(item: Generate) -> Envelope:
    return item.envelope.model_copy(update={"id": new_message_id()})
