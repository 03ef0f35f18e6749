"""How an episode ends, from what its turns gave: the same wherever it ends."""

import math

from warren_schemas.episode import Completed, EpisodeSpec, Failed, FailureKind, StopReason
from warren_schemas.transcript import Tokens, Transcript


def conclude(spec: EpisodeSpec, transcript: Transcript, stop: StopReason) -> Completed | Failed:
    """The outcome of an episode that goes no further. One without any reward is a failure, not a 0."""
    is_terminal = stop is StopReason.DONE
    reward = spec.reward_rules.reduce([t.reward for t in transcript.turns], is_terminal=is_terminal)
    if reward is None:
        return Failed(kind=FailureKind.NO_REWARD, reason=_unrewarded(spec, stop), retryable=False)
    if not math.isfinite(reward):
        return Failed(kind=FailureKind.INVALID_REWARD, reason="the rewards add up to no number")
    metrics = {name: value for turn in transcript.turns for name, value in turn.metrics.items()}
    return Completed(reward=reward, stop=stop, metrics=metrics)


def concluded(transcript: Transcript) -> Transcript:
    """The transcript of an episode that goes no further, without the tokens that it was shown last and never answered.

    Only a sampler finds out whether a prompt in tokens fits into the context and the vocabulary, and trainers get all that
    is recorded. The message that stands for the tokens stays, as one of words would.
    """
    messages = transcript.messages
    n_shown = messages[-1].n_tokens if len(messages) == transcript.n_rendered > 0 else 0
    if n_shown == 0:
        return transcript
    tokens = _first(transcript.tokens, max(0, len(transcript.tokens) - n_shown))
    return transcript.model_copy(update={"n_rendered": len(messages) - 1, "tokens": tokens})


def _first(tokens: Tokens, n_tokens: int) -> Tokens:
    """So many of them. Nothing is validated again."""
    mask = tokens.sampling_mask
    return Tokens.model_construct(
        ids_T=tokens.ids_T[:n_tokens],
        mask_T=tokens.mask_T[:n_tokens],
        logprobs_T=tokens.logprobs_T[:n_tokens],
        versions_T=tokens.versions_T[:n_tokens],
        sampling_mask=None if mask is None else mask.first(n_tokens),
    )


def _unrewarded(spec: EpisodeSpec, stop: StopReason) -> str:
    if stop in (StopReason.DONE, StopReason.TRUNCATED):
        return f"{spec.environment} ended the episode and gave no reward at any turn; return StepResult(reward=…), 0.0 too"
    return (
        "the episode was cut before any turn gave a reward; raise max_turns or the token limits,"
        " or set nonterminal_reward"
    )
