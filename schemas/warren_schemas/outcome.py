"""How an episode ends, from what its turns gave: the same wherever it ends."""

import math

from warren_schemas.episode import Completed, EpisodeSpec, Failed, FailureKind, StopReason
from warren_schemas.transcript import Transcript


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


def _unrewarded(spec: EpisodeSpec, stop: StopReason) -> str:
    if stop in (StopReason.DONE, StopReason.TRUNCATED):
        return f"{spec.environment} ended the episode and gave no reward at any turn"
    return (
        "the episode was cut before any turn gave a reward; raise max_turns or the token limits,"
        " or set nonterminal_reward"
    )
