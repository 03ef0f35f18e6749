"""How an episode ends, from what its turns gave: the same wherever it ends."""

import math

from warren_schemas.episode import Completed, EpisodeSpec, Failed, FailureKind
from warren_schemas.transcript import Transcript


def conclude(
    spec: EpisodeSpec, transcript: Transcript, *, is_over: bool, is_truncated: bool = False
) -> Completed | Failed:
    """The outcome of an episode that goes no further.

    `is_over`: the environment ended it. An episode without any reward is a failure, not a 0.
    """
    is_terminal = is_over and not is_truncated
    reward = spec.reward_rules.reduce([t.reward for t in transcript.turns], is_terminal=is_terminal)
    if reward is None:
        return Failed(
            kind=FailureKind.NO_REWARD, reason=_unrewarded(spec, is_over), retryable=False
        )
    if not math.isfinite(reward):
        return Failed(kind=FailureKind.INVALID_REWARD, reason="the rewards add up to no number")
    metrics = {name: value for turn in transcript.turns for name, value in turn.metrics.items()}
    return Completed(reward=reward, truncated=not is_terminal, metrics=metrics)


def _unrewarded(spec: EpisodeSpec, is_over: bool) -> str:
    if is_over:
        return f"{spec.environment} ended the episode and gave no reward at any turn"
    return (
        "the episode was cut before any turn gave a reward; raise max_turns or the token limits,"
        " or set nonterminal_reward"
    )
