"""Reinforcement learning: admit by staleness, train on complete groups.

Invariants: a group is trained on at most once; no group is trained on that was sampled more than
`max_staleness` optimizer steps ago (pacing makes that rare, the check here makes it certain).
"""

from dataclasses import replace

import numpy as np

from warren_gateway.coordinator.learning import mask_bound, zero_variance
from warren_gateway.coordinator.learning.batch_metrics import batch_metrics
from warren_gateway.coordinator.learning.batches import Datum
from warren_gateway.coordinator.learning.credit import (
    credited,
    has_penalty,
    has_signal,
    is_by_turn,
    n_inseparable,
    n_without_signal,
)
from warren_gateway.coordinator.learning.environment_metrics import environment_metrics
from warren_gateway.coordinator.learning.learning_rate import learning_rate
from warren_gateway.coordinator.learning.steps import objective, take_step
from warren_gateway.coordinator.rollouts import completed, evaluation
from warren_gateway.coordinator.rollouts.admission import n_groups_wanted
from warren_gateway.coordinator.rollouts.curricula.tags import curriculum_metrics
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_schemas.config import AlgorithmConfig, LimitsConfig
from warren_schemas.episode import EpisodePurpose

REWARD_WINDOW = 16
"""Batches over which `limits.stop_at_reward` looks."""


def advance(state: CoordinatorState) -> None:
    config = state.config
    completed.drop_stale(state)
    while state.has_batch and steps_left(state):
        _take_step(state)
        completed.drop_stale(state)
    evaluation.start_next(state)
    wanted = n_groups_wanted(
        n_admitted=state.rollouts.n_admitted,
        n_steps_published=state.learning.steps.n_published,
        n_steps_total=state.stage.n_steps if steps_left(state) else 0,
        groups_per_step=config.algorithm.groups_per_step,
        max_staleness=config.algorithm.max_staleness,
    )
    state.source.request(state, EpisodePurpose.TRAIN, wanted)


def steps_left(state: CoordinatorState) -> int:
    """Batches still to be consumed, never below 0: a resumed run may begin beyond its last step."""
    limits, learning = state.config.limits, state.learning
    if is_goal_reached(limits, learning) or zero_variance.is_enough(limits, learning):
        return 0
    return max(0, state.stage.n_steps - learning.steps.n_consumed)


def is_goal_reached(limits: LimitsConfig, learning: LearningState) -> bool:
    """Whether the reward is as high as was asked for."""
    goal, recent = limits.stop_at_reward, learning.batches.recent_rewards
    return goal is not None and len(recent) == REWARD_WINDOW and float(np.mean(recent)) >= goal


def _take_step(state: CoordinatorState) -> None:
    config = state.config
    state.change.follows_from_limits = True
    groups = completed.take_batch(state.rollouts, config.algorithm.groups_per_step)
    learning = state.learning
    metrics = {
        **batch_metrics(groups),
        **environment_metrics(state, groups),
        **curriculum_metrics(state, groups),
        **state.source.metrics(groups, state.learning.policy.version_issued),
    }
    data, divisor = step_data(groups, config.algorithm)
    if is_by_turn(config.algorithm):
        metrics["group/inseparable_episodes"] = float(n_inseparable(groups))
    learning.batches.max_staleness = max(
        learning.batches.max_staleness, int(metrics.get("stale/lag_max", 0))
    )
    learning.batches.recent_rewards = [*learning.batches.recent_rewards, metrics["reward/mean"]][
        -REWARD_WINDOW:
    ]
    learning.steps.n_updates += bool(data)
    zero_variance.note_batch(state, groups, has_signal=has_signal(data, config.algorithm))
    mask_bound.note_batch(state, groups)
    if not has_penalty(config.algorithm):
        n_dropped = n_without_signal(groups, config.algorithm)
        completed.note_dropped(state.rollouts, "no_signal", n_dropped)
    for group in groups:
        state.source.close(state, group, "trained")
    take_step(
        state,
        data,
        objective(config.algorithm, divisor),
        learning_rate=learning_rate(
            config.optimizer, learning.steps.n_consumed, state.stage.n_steps
        ),
        publish=True,
        metrics=metrics,
    )


def step_data(groups: list[Group], algorithm: AlgorithmConfig) -> tuple[list[Datum], int]:
    """The trajectories to train on, their weights normalized, and what by.

    What a critic judges keeps its rewards as they are; the op says what to divide by.
    """
    data = credited(groups, algorithm)
    n_tokens = sum(datum.tokens.n_sampled for datum in data)
    divisor = {"tokens": n_tokens, "episodes": len(data), "none": 1}[algorithm.normalize]
    if algorithm.critic is not None:
        return data, max(1, divisor)
    share = np.float32(1.0 / max(1, divisor))
    return [replace(datum, weights_T=datum.weights_T * share) for datum in data], max(1, divisor)
