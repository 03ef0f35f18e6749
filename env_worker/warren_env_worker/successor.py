"""The item that follows: what an env worker publishes for an item that it took.

Invariants: a transcript only grows, but for rewards of earlier turns that the environment gives late; at its end it has no token that was shown and not
answered (`concluded`); every item carries the run, episode, attempt and deadline of the one that it follows; a failure carries no reward.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from warren_broker.successors import Destination
from warren_broker.topology import generate, sampler_home, trajectories
from warren_env_worker.branching import gone_back
from warren_env_worker.host.protocol import Answer, Description, Message, Observed, Refused
from warren_schemas.codec.frame import MAX_MESSAGE_BYTES
from warren_schemas.config import OwnReward
from warren_schemas.envelope import Envelope
from warren_schemas.episode import (
    EpisodeEnded,
    EpisodePurpose,
    EpisodeSpec,
    Failed,
    FailureKind,
    FinishReason,
    Generate,
    Outcome,
    StartEpisode,
    Step,
    StopReason,
)
from warren_schemas.episode_times import EpisodeTimes
from warren_schemas.ids import WorkerId
from warren_schemas.images import Image
from warren_schemas.outcome import conclude, concluded
from warren_schemas.transcript import ChatMessage, Transcript, Turn

MAX_TRANSCRIPT_CHARS = 1_000_000
"""Most characters of an episode's messages."""
MAX_TRANSCRIPT_BYTES = MAX_MESSAGE_BYTES - 1024 * 1024
"""Most that its words and tokens weigh: what is sent with them, and what the policy's next turn adds, takes the rest of a message."""

Taken = StartEpisode | Step

_GOES_ON = Failed(
    kind=FailureKind.NOT_REPLAYABLE,
    reason="the environment goes on where the recorded episode ended, so nobody knows what would have followed",
    retryable=False,
)


@dataclass(frozen=True, slots=True)
class Successor:
    address: Destination
    item: Generate | EpisodeEnded
    unrewarded: StopReason | None = None
    """Why the episode ended, where its rubric has yet to reward it."""

    @property
    def is_end(self) -> bool:
        return isinstance(self.item, EpisodeEnded)


@dataclass(frozen=True, slots=True)
class Origin:
    """Who publishes a successor, and what made it."""

    worker: WorkerId
    started_s: float
    environment: Description | None = None
    waited_s: float = 0.0
    """For the sampler, all in all, until the item came that was taken."""
    call_s: float = 0.0
    """For the environment's answer to it."""
    is_rebuilt: bool = False
    """The environment was made anew for that."""


def follow(taken: Taken, answer: Answer, by: Origin) -> Successor:
    """What follows from the environment's answer: the policy's turn, or the end."""
    recorded_stop = taken.recorded_stop if isinstance(taken, Step) else None
    if isinstance(answer, Refused):
        is_final = recorded_stop is not None and answer.kind is FailureKind.NOT_REPLAYABLE
        is_retryable = answer.is_retryable and not is_final
        failed = Failed(kind=answer.kind, reason=answer.reason, retryable=is_retryable)
        return end(taken, failed, by)
    transcript = _extended(taken, answer, by)
    stop = _stop(taken.spec, answer, transcript)
    if stop is None and recorded_stop is not None:
        if recorded_stop is not StopReason.MAX_TOTAL_TOKENS:
            return end(taken, _GOES_ON, by)
        stop = recorded_stop
    kept = transcript if stop is None else concluded(transcript)
    if (failed := _too_large(kept)) is not None:
        return end(taken, failed, by)
    if stop is None:
        return _ask_policy(taken, kept, answer, by.worker)
    outcome, uncompared = conclude(taken.spec, kept, stop), _uncompared(taken.spec, stop, by)
    ended = end(taken, outcome, by, transcript=kept, uncompared=uncompared)
    return replace(ended, unrewarded=stop) if _has_rubric(taken.spec) else ended


def end(
    taken: Taken,
    outcome: Outcome,
    by: Origin,
    *,
    transcript: Transcript | None = None,
    uncompared: StopReason | None = None,
) -> Successor:
    """The end of the episode, with what was said until then."""
    item = EpisodeEnded(
        envelope=_envelope(taken),
        spec=taken.spec,
        transcript=_before(taken) if transcript is None else transcript,
        outcome=outcome,
        worker=by.worker,
        started_s=by.started_s,
        ended_s=time.time(),
        environment_version=by.environment.version if by.environment else "",
        environment_code=by.environment.code if by.environment else "",
        uncompared=uncompared,
    )
    return Successor(trajectories(taken.envelope.run or ""), item)


def _has_rubric(spec: EpisodeSpec) -> bool:
    """Demonstrations are learned whatever they are worth."""
    return bool(spec.rewards) and spec.purpose is not EpisodePurpose.DEMONSTRATE


def _uncompared(spec: EpisodeSpec, stop: StopReason, by: Origin) -> StopReason | None:
    """Why it ended, where its environment has yet to compare it with its group, and what that gives counts."""
    compares = by.environment is not None and by.environment.compares_groups
    is_learned = spec.purpose is EpisodePurpose.DEMONSTRATE  # whatever it is worth
    return stop if compares and not is_learned and counts_own(spec) else None


def counts_own(spec: EpisodeSpec) -> bool:
    """Whether what the environment gives is a part of the reward."""
    return not spec.rewards or any(isinstance(part, OwnReward) for part in spec.rewards)


def _ask_policy(
    taken: Taken, transcript: Transcript, observed: Observed, worker: WorkerId
) -> Successor:
    item = Generate(
        envelope=_envelope(taken),
        spec=taken.spec,
        transcript=transcript,
        turn=len(transcript.turns),
        home=worker,
        forced_action=observed.demonstration,
        is_plain=bool(observed.ids),
    )
    return Successor(_sampler_for(taken), item)


def _sampler_for(taken: Taken) -> Destination:
    """Who took the turn before, if it wants the next one as well; else any sampler."""
    base_model = taken.spec.policy.base_model
    if isinstance(taken, Step) and taken.return_to is not None:
        return sampler_home(taken.return_to, base_model)
    return generate(base_model)


def _envelope(taken: Taken) -> Envelope:
    before = taken.envelope
    return Envelope(
        run=before.run,
        episode=before.episode,
        attempt=before.attempt,
        deadline_s=before.deadline_s,
        traceparent=before.traceparent,
    )


def _before(taken: Taken) -> Transcript:
    return taken.transcript if isinstance(taken, Step) else Transcript()


def _extended(taken: Taken, observed: Observed, by: Origin) -> Transcript:
    if isinstance(taken, StartEpisode):
        times = EpisodeTimes(reset_s=by.call_s)
        begun = Transcript(
            reset_digest=observed.digest,
            task_number=observed.task_number,
            task_id=observed.task_id,
            category=observed.category,
            times=times,
        )
        return _showing(begun, observed)
    before = taken.transcript
    turn = Turn(
        reward=observed.reward,
        digest=observed.digest,
        metrics=observed.metrics,
        is_cut=taken.finish is FinishReason.LENGTH,
        branch=before.branch,
    )
    call = "reset_s" if by.is_rebuilt else "step_s"
    times = before.times.plus(sampler_wait_s=by.waited_s, **{call: by.call_s})
    turns = (*_rewarded(before.turns, observed.earlier), turn)
    answered = before.model_copy(update={"turns": turns, "times": times})
    found = answered if observed.after is None else gone_back(answered, observed.after)
    return _showing(found, observed)


def _showing(transcript: Transcript, observed: Observed) -> Transcript:
    """The transcript with what the policy is shown at its end: messages to render, or tokens as they are."""
    if not observed.ids:
        shown = _messages(observed.messages)
        return transcript.model_copy(update={"messages": (*transcript.messages, *shown)})
    told = ChatMessage(role="user", content="", n_tokens=len(observed.ids))
    messages = (*transcript.messages, told)
    tokens = transcript.tokens.prompted(observed.ids)
    return transcript.model_copy(
        update={"messages": messages, "n_rendered": len(messages), "tokens": tokens}
    )


def _rewarded(turns: Sequence[Turn], rewards: Sequence[tuple[int, float]]) -> Sequence[Turn]:
    """The turns with these rewards, by number counted from 1."""
    found = list(turns)
    for number, reward in rewards:
        found[number - 1] = found[number - 1].model_copy(update={"reward": reward})
    return found


def _messages(shown: Sequence[Message]) -> tuple[ChatMessage, ...]:
    return tuple(_message(each) for each in shown)


def _message(shown: Message) -> ChatMessage:
    """Whatever is shown to the policy as its own words, it did not say here."""
    role, content, *rest = shown
    pictures = rest[0] if rest else ()
    images = tuple(Image(media_type=kind, base64=data) for kind, data in pictures)
    is_quoted = role == "assistant"
    return ChatMessage(role=role, content=content, images=images, is_quoted=is_quoted)


def _too_large(transcript: Transcript) -> Failed | None:
    """Why no message can carry it; one that came in a message can."""
    n_chars = transcript.n_chars
    if n_chars > MAX_TRANSCRIPT_CHARS:
        reason = f"the messages add up to {n_chars} characters; {MAX_TRANSCRIPT_CHARS} can be sent"
    elif (
        transcript.most_bytes > MAX_TRANSCRIPT_BYTES
        and (n_bytes := transcript.size_bytes) > MAX_TRANSCRIPT_BYTES
    ):
        reason = (
            f"the messages and tokens add up to {n_bytes} bytes; {MAX_TRANSCRIPT_BYTES} can be sent"
        )
    else:
        return None
    return Failed(kind=FailureKind.ENVIRONMENT_ERROR, reason=reason)


def _stop(spec: EpisodeSpec, observed: Observed, transcript: Transcript) -> StopReason | None:
    """None while the episode goes on."""
    limit = spec.sampling.max_total_tokens
    if observed.is_over and not observed.is_truncated:
        return StopReason.DONE
    if len(transcript.turns) >= spec.max_turns:
        return StopReason.MAX_TURNS
    if observed.is_truncated:
        return StopReason.TRUNCATED
    is_full = limit is not None and len(transcript.tokens) >= limit
    return StopReason.MAX_TOTAL_TOKENS if is_full else None
