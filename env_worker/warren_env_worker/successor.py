"""The item that follows: what an env worker publishes for an item that it took.

Invariants: a transcript only grows, but for rewards of earlier turns that the environment gives late; every item carries the run, episode, attempt and deadline of
the one that it follows; a failure carries no reward.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from warren_broker.successors import Destination
from warren_broker.topology import generate, sampler_home, trajectories
from warren_env_worker.branching import gone_back
from warren_env_worker.host.protocol import Answer, Description, Message, Observed, Refused
from warren_schemas.envelope import Envelope
from warren_schemas.episode import (
    EpisodeEnded,
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
from warren_schemas.ids import WorkerId
from warren_schemas.outcome import conclude
from warren_schemas.transcript import ChatMessage, EpisodeTimes, Image, Transcript, Turn

MAX_TRANSCRIPT_CHARS = 1_000_000
"""Most characters of an episode's messages: what surely fits into one message of the broker."""

Taken = StartEpisode | Step


@dataclass(frozen=True, slots=True)
class Successor:
    address: Destination
    item: Generate | EpisodeEnded

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
    if isinstance(answer, Refused):
        failed = Failed(kind=answer.kind, reason=answer.reason, retryable=answer.is_retryable)
        return end(taken, failed, by)
    transcript = _extended(taken, answer, by)
    outcome = _outcome(taken, answer, transcript)
    if outcome is None:
        return _ask_policy(taken, transcript, answer.demonstration, by.worker)
    return end(taken, outcome, by, transcript=transcript)


def end(
    taken: Taken, outcome: Outcome, by: Origin, *, transcript: Transcript | None = None
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
    )
    return Successor(trajectories(taken.envelope.run or ""), item)


def _ask_policy(
    taken: Taken, transcript: Transcript, forced: str | None, worker: WorkerId
) -> Successor:
    item = Generate(
        envelope=_envelope(taken),
        spec=taken.spec,
        transcript=transcript,
        turn=len(transcript.turns),
        home=worker,
        forced_action=forced,
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
    shown = _messages(observed.messages)
    if isinstance(taken, StartEpisode):
        times = EpisodeTimes(reset_s=by.call_s)
        return Transcript(
            messages=shown,
            reset_digest=observed.digest,
            task_number=observed.task_number,
            category=observed.category,
            times=times,
        )
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
    return found.model_copy(update={"messages": (*found.messages, *shown)})


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


def _outcome(taken: Taken, observed: Observed, transcript: Transcript) -> Outcome | None:
    """None while the episode goes on."""
    n_chars = transcript.n_chars
    if n_chars > MAX_TRANSCRIPT_CHARS:
        return Failed(
            kind=FailureKind.ENVIRONMENT_ERROR,
            reason=f"the messages add up to {n_chars} characters; {MAX_TRANSCRIPT_CHARS} can be sent",
        )
    stop = _stop(taken.spec, observed, transcript)
    return None if stop is None else conclude(taken.spec, transcript, stop)


def _stop(spec: EpisodeSpec, observed: Observed, transcript: Transcript) -> StopReason | None:
    limit = spec.sampling.max_total_tokens
    if observed.is_over and not observed.is_truncated:
        return StopReason.DONE
    if len(transcript.turns) >= spec.max_turns:
        return StopReason.MAX_TURNS
    if observed.is_truncated:
        return StopReason.TRUNCATED
    is_full = limit is not None and len(transcript.tokens) >= limit
    return StopReason.MAX_TOTAL_TOKENS if is_full else None
