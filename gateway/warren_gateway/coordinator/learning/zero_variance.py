"""Zero-variance steps: warnings about them, and the limit that ends the run.

Such a step makes no update, but for that of an entropy bonus or a KL penalty. A few are normal; many in a row mean that the rewards, the format or the
sampling must be looked at, so they are told of with what is known of them, and can end the run.
"""

from collections.abc import Sequence

import numpy as np

from warren_gateway.coordinator import alarms
from warren_gateway.coordinator.learning.advantages import SAME
from warren_gateway.coordinator.learning.credit import is_by_turn, n_inseparable
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_schemas.config import AlarmName, AlgorithmConfig, LimitsConfig
from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.transcript import Tokens

_MANY = 0.5
"""What is so of this share of the episodes is told as their likely cause."""


def note_batch(state: CoordinatorState, groups: Sequence[Group], *, has_signal: bool) -> None:
    """A batch is consumed; warn when it is one too many in a row, then after twice as many."""
    if has_signal:
        state.learning.batches.has_learned = True
        state.learning.batches.n_zero_variance = 0
        return
    state.learning.batches.n_zero_variance += 1
    state.learning.batches.zero_variance_facts = facts(groups, state.config.algorithm)
    times, rest = divmod(
        state.learning.batches.n_zero_variance, state.config.limits.warn_after_zero_variance_steps
    )
    if rest == 0 and times.bit_count() == 1:
        message = (
            f"{state.learning.batches.n_zero_variance} steps in a row learned nothing from rewards: all their groups"
            f" had zero variance. In the last one {state.learning.batches.zero_variance_facts}. {advice(state)}"
        )
        alarms.tell(state, AlarmName.ZERO_VARIANCE, message)


def is_enough(limits: LimitsConfig, learning: LearningState) -> bool:
    """Whether `limits.stop_after_zero_variance_steps` ends the run."""
    most = limits.stop_after_zero_variance_steps
    return most is not None and learning.batches.n_zero_variance >= most


def advice(state: CoordinatorState) -> str:
    """Where to look."""
    sampling, algorithm = state.config.sampling, state.config.algorithm
    return (
        "Look at the rewards and the format that the environment wants (what the model said:"
        f" `warren trajectories {state.run}`), at sampling.temperature ({sampling.temperature:g}),"
        f" sampling.max_tokens ({sampling.max_tokens}) and algorithm.group_size"
        f" ({algorithm.group_size})"
    )


def facts(groups: Sequence[Group], algorithm: AlgorithmConfig) -> str:
    """What the episodes of a batch without a signal have in common; no sentence, a part of one."""
    pairs = [pair for group in groups for pair in group.completed]
    items = [item for item, _ in pairs]
    if is_by_turn(algorithm) and n_inseparable(groups) == len(items):
        return "the turns of no episode could be told apart in its tokens, as credit by turn needs"
    told = [
        _rewards(pairs, n_groups=len(groups)),
        _alike(groups),
        _cut(items),
        _truncated(pairs),
    ]
    return "; ".join(fact for fact in told if fact)


def _rewards(pairs: Sequence[tuple[EpisodeEnded, Completed]], n_groups: int) -> str:
    rewards = [outcome.reward for _, outcome in pairs]
    low, high = min(rewards), max(rewards)
    if high - low < SAME:
        return f"all {len(rewards)} episodes got the reward {low:.3f}"
    return (
        f"the episodes of each of the {n_groups} groups got the same rewards as one another"
        f" (from {low:.3f} to {high:.3f})"
    )


def _alike(groups: Sequence[Group]) -> str:
    several = [group for group in groups if len(group.completed) > 1]
    n_alike = sum(_is_alike([item for item, _ in group.completed]) for group in several)
    if n_alike <= _MANY * len(groups):
        return ""
    return f"in {n_alike} of {len(groups)} groups all answers were the same, token by token"


def _is_alike(items: Sequence[EpisodeEnded]) -> bool:
    said = {
        tuple(_sampled(tokens).tobytes() for tokens in item.transcript.sequences) for item in items
    }
    return len(said) == 1


def _sampled(tokens: Tokens) -> np.ndarray:
    return tokens.ids_T[tokens.mask_T == 1]


def _cut(items: Sequence[EpisodeEnded]) -> str:
    limits = {item.spec.sampling.max_tokens for item in items}
    n_cut = sum(
        max(map(_longest_turn, item.transcript.sequences)) >= item.spec.sampling.max_tokens
        for item in items
    )
    if n_cut <= _MANY * len(items):
        return ""
    most = " or ".join(str(limit) for limit in sorted(limits))
    return f"{n_cut} of {len(items)} episodes had an answer as long as max_tokens ({most}) allows"


def _longest_turn(tokens: Tokens) -> int:
    edges = np.flatnonzero(np.diff(tokens.mask_T.astype(np.int8), prepend=0, append=0))
    return int(np.max(edges[1::2] - edges[::2], initial=0))


def _truncated(pairs: Sequence[tuple[EpisodeEnded, Completed]]) -> str:
    n_truncated = sum(outcome.truncated for _, outcome in pairs)
    if n_truncated <= _MANY * len(pairs):
        return ""
    return f"{n_truncated} of {len(pairs)} episodes were ended by a limit, not by their environment"
