"""Reinforcement learning: admit by staleness, train on complete groups.

Invariants: a group is trained on at most once; no group is trained on that was sampled more than
`max_staleness` optimizer steps ago (pacing makes that rare, the check here makes it certain).
"""

from dataclasses import replace

import numpy as np

from warren_gateway.coordinator.learning.batch_metrics import batch_metrics
from warren_gateway.coordinator.learning.batches import Datum
from warren_gateway.coordinator.learning.credit import credited, is_by_turn, n_inseparable
from warren_gateway.coordinator.learning.environment_metrics import environment_metrics
from warren_gateway.coordinator.learning.learning_rate import learning_rate
from warren_gateway.coordinator.learning.steps import objective, take_step
from warren_gateway.coordinator.notices import zero_variance
from warren_gateway.coordinator.rollouts import evaluation
from warren_gateway.coordinator.rollouts.admission import n_groups_wanted
from warren_gateway.coordinator.rollouts.groups import Group
from warren_gateway.coordinator.state import Memory
from warren_schemas.config import AlgorithmConfig
from warren_schemas.episode import EpisodePurpose

REWARD_WINDOW = 16
"""Batches over which `limits.stop_at_reward` looks."""


def advance(memory: Memory) -> None:
    config, progress = memory.config, memory.progress
    drop_stale(memory)
    while memory.has_batch and steps_left(memory):
        _take_step(memory)
        drop_stale(memory)
    evaluation.start_if_due(memory)
    wanted = n_groups_wanted(
        n_admitted=progress.n_admitted,
        n_steps_published=progress.n_published_steps,
        n_steps_total=memory.stage.n_steps if steps_left(memory) else 0,
        groups_per_step=config.algorithm.groups_per_step,
        max_staleness=config.algorithm.max_staleness,
    )
    memory.source.request(memory, EpisodePurpose.TRAIN, wanted)


def steps_left(memory: Memory) -> int:
    """Batches still to be consumed, never below 0: a resumed run may begin beyond its last step."""
    if is_goal_reached(memory) or zero_variance.is_enough(memory):
        return 0
    return max(0, memory.stage.n_steps - memory.progress.n_consumed_steps)


def is_goal_reached(memory: Memory) -> bool:
    """Whether the reward is as high as was asked for."""
    goal, recent = memory.config.limits.stop_at_reward, memory.progress.recent_rewards
    return goal is not None and len(recent) == REWARD_WINDOW and float(np.mean(recent)) >= goal


def drop_stale(memory: Memory) -> None:
    """Close complete groups that are too old to be trained on; others take their place."""
    for group in list(memory.ready):
        if memory.source.is_stale(memory, group):
            memory.ready.remove(group)
            memory.progress.n_admitted -= 1
            memory.progress.n_stale_groups += 1
            memory.source.close(memory, group, "stale")


def _take_step(memory: Memory) -> None:
    config, progress = memory.config, memory.progress
    n_groups = config.algorithm.groups_per_step
    groups, memory.ready[:n_groups] = memory.ready[:n_groups], []
    metrics = {
        **batch_metrics(groups),
        **environment_metrics(memory, groups),
        **memory.source.metrics(memory, groups),
    }
    data, divisor = step_data(groups, config.algorithm)
    if is_by_turn(config.algorithm):
        metrics["group/unclear_turns"] = float(n_inseparable(groups))
    progress.max_staleness_seen = max(
        progress.max_staleness_seen, int(metrics.get("stale/lag_max", 0))
    )
    progress.recent_rewards = [*progress.recent_rewards, metrics["reward/mean"]][-REWARD_WINDOW:]
    progress.n_updates += bool(data)
    zero_variance.note(memory, groups, has_signal=bool(data))
    for group in groups:
        memory.source.close(memory, group, "trained")
    take_step(
        memory,
        data,
        objective(config.algorithm, divisor),
        learning_rate=learning_rate(
            config.optimizer, progress.n_consumed_steps, memory.stage.n_steps
        ),
        publish=True,
        metrics=metrics,
    )


def step_data(groups: list[Group], algorithm: AlgorithmConfig) -> tuple[list[Datum], int]:
    """The trajectories that carry a signal, their weights normalized, and what by.

    What a critic judges keeps its rewards as they are; the op says what to divide by.
    """
    data = credited(groups, algorithm)
    n_tokens = sum(datum.tokens.n_sampled for datum in data)
    divisor = {"tokens": n_tokens, "episodes": len(data), "none": 1}[algorithm.normalize]
    if algorithm.critic is not None:
        return data, max(1, divisor)
    share = np.float32(1.0 / max(1, divisor))
    return [replace(datum, weights_T=datum.weights_T * share) for datum in data], max(1, divisor)
