"""Credit: from the rewards of a batch's episodes to a weight for every sampled token.

Where there is a critic the weights are the rewards themselves, and the trainer makes advantages.

Suffixes: `_T` tokens of one sequence, `_K` turns of one episode.

Invariants: a token that was not sampled weighs nothing; an episode whose turns can't be told apart
in its tokens is left out, never guessed at.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

import numpy as np
from numpy.typing import NDArray

from warren_gateway.coordinator.learning.advantages import Floats, advantages
from warren_gateway.coordinator.learning.batches import Datum, WaySampled
from warren_gateway.coordinator.state.groups import Group
from warren_schemas.config import AlgorithmConfig, TurnCredit
from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.transcript import Tokens, Transcript

Member = tuple[EpisodeEnded, Completed]


def credited(groups: Sequence[Group], algorithm: AlgorithmConfig) -> list[Datum]:
    """The trajectories to train on, with the advantage of each token.

    Where rewards are the whole objective these are the ones that carry a signal. An entropy bonus and a KL penalty
    are of every episode, so with them the others stay as well, with advantages of 0.
    """
    if algorithm.critic is not None:
        return list(_rewards(groups))
    if isinstance(algorithm.credit, TurnCredit):
        return list(_by_turn(groups, algorithm, algorithm.credit.discount))
    return list(_by_episode(groups, algorithm))


def has_penalty(algorithm: AlgorithmConfig) -> bool:
    """Whether the objective has a term that rewards have no part in."""
    return algorithm.entropy_coefficient > 0.0 or algorithm.kl is not None


def has_signal(data: Sequence[Datum], algorithm: AlgorithmConfig) -> bool:
    """Whether rewards tell these trajectories apart; a critic tells of each one by itself."""
    if algorithm.critic is not None:
        return bool(data)
    return any(datum.weights_T.any() for datum in data)


def n_without_signal(groups: Sequence[Group], algorithm: AlgorithmConfig) -> int:
    """Groups of which no trajectory was better or worse than the others."""
    if is_by_turn(algorithm):
        return sum(not has_signal(credited([group], algorithm), algorithm) for group in groups)
    rewards = [np.array([outcome.reward for _, outcome in group.completed]) for group in groups]
    return sum(found is None for found in advantages(rewards, algorithm.advantage))


def is_by_turn(algorithm: AlgorithmConfig) -> bool:
    """Whether turns must be told apart."""
    return algorithm.critic is not None or isinstance(algorithm.credit, TurnCredit)


def _rewards(groups: Sequence[Group]) -> Iterator[Datum]:
    """For a critic: each turn's reward at the turn's last token, with what was rewarded in other branches
    before the branch goes on. No episode is compared with others."""
    for item in (item for group in groups for item, _ in group.completed):
        transcript = item.transcript
        for branch in transcript.branches if is_separable(transcript) else ():
            weights_T = np.zeros(len(branch.tokens), np.float32)
            turns = transcript.turns_of(branch.number)
            rewards_K = turn_rewards(item)
            for place, (turn, following) in zip(
                _stretches(branch.tokens), pairwise([*turns, len(rewards_K)]), strict=True
            ):
                weights_T[place.stop - 1] = sum(rewards_K[turn:following])
            if turns:
                yield Datum(branch.tokens, weights_T, WaySampled.of(item))


def _by_episode(groups: Sequence[Group], algorithm: AlgorithmConfig) -> Iterator[Datum]:
    members = [group.completed for group in groups]
    rewards = [np.array([outcome.reward for _, outcome in group]) for group in members]
    for group, found in zip(members, advantages(rewards, algorithm.advantage), strict=True):
        if found is None and not has_penalty(algorithm):
            continue
        advantages_G = np.zeros(len(group)) if found is None else found
        for (item, _), advantage in zip(group, advantages_G.tolist(), strict=True):
            for tokens in item.transcript.sequences:
                if tokens.n_sampled:
                    weights_T = tokens.mask_T * np.float32(advantage)
                    yield Datum(tokens, weights_T, WaySampled.of(item))


def _by_turn(
    groups: Sequence[Group], algorithm: AlgorithmConfig, discount: float
) -> Iterator[Datum]:
    """Turn k of an episode is compared with turn k of the other members that got that far."""
    kept = [[i for i, _ in g.completed if is_separable(i.transcript)] for g in groups]
    returns = [[turn_returns(turn_rewards(item), discount) for item in group] for group in kept]
    # One comparison for each group and turn, all of them one batch.
    columns = [_columns(group) for group in returns]
    flat = [column[~np.isnan(column)] for group in columns for column in group]
    found = iter(advantages(flat, algorithm.advantage))
    for items, group in zip(kept, columns, strict=True):
        by_turn = [_scatter(column, next(found)) for column in group]
        for member, item in enumerate(items):
            transcript = item.transcript
            weights_K = [float(column[member]) for column in by_turn][: len(transcript.turns)]
            for branch in transcript.branches:
                of_branch = [weights_K[turn] for turn in transcript.turns_of(branch.number)]
                if any(of_branch) or (of_branch and has_penalty(algorithm)):
                    weights_T = _spread(branch.tokens, of_branch)
                    yield Datum(branch.tokens, weights_T, WaySampled.of(item))


def n_inseparable(groups: Sequence[Group]) -> int:
    """Episodes that credit by turn leaves out."""
    members = [item for group in groups for item, _ in group.completed]
    return sum(not is_separable(item.transcript) for item in members)


def turn_rewards(item: EpisodeEnded) -> list[float]:
    """r_k, 0 for a turn without a reward; the last turn of a truncated episode has the extra one as well."""
    rewards_K = [turn.reward or 0.0 for turn in item.transcript.turns]
    is_truncated = isinstance(item.outcome, Completed) and item.outcome.truncated
    if rewards_K and is_truncated:
        rewards_K[-1] += item.spec.reward_rules.nonterminal or 0.0
    return rewards_K


def turn_returns(rewards_K: Sequence[float], discount: float) -> list[float]:
    """G_k = Σ_{j ≥ k} discount^(j - k) r_j."""
    returns: list[float] = []
    following = 0.0
    for reward in reversed(rewards_K):
        following = reward + discount * following
        returns.append(following)
    return returns[::-1]


def is_separable(transcript: Transcript) -> bool:
    """Whether each turn is one stretch of sampled tokens."""
    n_by_branch = [
        (len(_stretches(branch.tokens)), len(transcript.turns_of(branch.number)))
        for branch in transcript.branches
    ]
    return len(transcript.turns) > 0 and all(a == b for a, b in n_by_branch)


def _stretches(tokens: Tokens) -> list[slice]:
    """Where the policy spoke."""
    edges = np.flatnonzero(np.diff(tokens.mask_T, prepend=0, append=0)).tolist()
    return [slice(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True)]


def _columns(returns: Sequence[Sequence[float]]) -> list[Floats]:
    """By turn, the returns of all members; NaN for those that ended before."""
    return [np.array(column) for column in zip_longest(*returns, fillvalue=np.nan)]


def _scatter(column: Floats, found: Floats | None) -> Floats:
    """Advantages back at their members; 0 where there is no signal."""
    spread = np.zeros_like(column)
    if found is not None:
        spread[~np.isnan(column)] = found
    return spread


def _spread(tokens: Tokens, weights_K: Sequence[float]) -> NDArray[np.float32]:
    weights_T = np.zeros(len(tokens), np.float32)
    for place, weight in zip(_stretches(tokens), weights_K, strict=True):
        weights_T[place] = weight
    return weights_T
