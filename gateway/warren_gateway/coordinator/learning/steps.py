"""Steps: from a batch of data to ops in the log, and from their answers to a published policy.

Invariant: a step counts as published when every op of it is answered; steps are published in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from warren_gateway.coordinator.learning import step_times
from warren_gateway.coordinator.learning.batch_metrics import trainer_metrics
from warren_gateway.coordinator.learning.batches import Datum, by_temperature, token_batches
from warren_gateway.coordinator.learning.checkpointing import checkpoint_if_due
from warren_gateway.coordinator.learning.op_log import append
from warren_gateway.coordinator.progress import PendingStep
from warren_gateway.coordinator.rollouts import failure_limits
from warren_gateway.coordinator.state import Memory
from warren_schemas.config import AlgorithmConfig, Critic, DroLoss, KlPenalty, Loss
from warren_schemas.events import Phase, StepCompleted
from warren_schemas.training import (
    KEEP_POLICIES,
    CriticTerm,
    ForwardBackward,
    OpDone,
    OpResult,
    OptimStep,
    PublishPolicy,
)


@dataclass(frozen=True, slots=True)
class Objective:
    """What a step minimizes; coefficients as the trainer takes them, for each token of the sum."""

    loss: Loss
    kl: KlPenalty | None = None
    entropy_coefficient: float = 0.0
    tis_cap: float | None = None
    critic: CriticTerm | None = None


def objective(algorithm: AlgorithmConfig, divisor: int) -> Objective:
    """The run's loss and penalties, divided by what the weights were divided by."""
    loss, kl = algorithm.loss, algorithm.kl
    if isinstance(loss, DroLoss):
        loss = DroLoss(beta=loss.beta / divisor)
    if kl is not None:
        kl = kl.model_copy(update={"coefficient": kl.coefficient / divisor})
    return Objective(
        loss,
        kl,
        algorithm.entropy_coefficient / divisor,
        algorithm.tis_cap,
        None if algorithm.critic is None else _critic_term(algorithm.critic, divisor),
    )


def _critic_term(critic: Critic, divisor: int) -> CriticTerm:
    return CriticTerm(
        gamma=critic.gamma,
        gae_lambda=critic.gae_lambda,
        value_coefficient=critic.value_coefficient / divisor,
        value_clip=critic.value_clip,
        advantage_scale=1.0 / divisor,
    )


def take_step(
    memory: Memory,
    data: Sequence[Datum],
    objective: Objective,
    *,
    learning_rate: float,
    publish: bool,
    metrics: dict[str, float],
) -> None:
    """Append the ops of one step; a step without data has none and changes no version."""
    first_op = memory.last_op + 1
    if data:
        _append_update(memory, data, objective, learning_rate)
        metrics = {**metrics, "policy/learning_rate": learning_rate}
        if publish:
            append(memory, PublishPolicy())
    memory.progress.n_consumed_steps += 1
    if memory.stage.phase is Phase.TRAINING:
        memory.progress.n_trained_steps = memory.progress.n_consumed_steps
    checkpoint_if_due(memory)
    memory.progress.pending.append(
        PendingStep(
            step=memory.progress.n_consumed_steps,
            phase=memory.stage.phase,
            version=memory.progress.version_issued,
            n_updates=memory.progress.n_updates,
            first_op=first_op,
            last_op=memory.last_op if data else 0,
            metrics=metrics,
            batched_s=memory.now_s,
        )
    )


def _append_update(
    memory: Memory, data: Sequence[Datum], objective: Objective, learning_rate: float
) -> None:
    for temperature, part in by_temperature(data).items():
        for batch in token_batches(part):
            op = ForwardBackward(
                loss=objective.loss,
                batch=batch,
                temperature=temperature,
                kl=objective.kl,
                entropy_coefficient=objective.entropy_coefficient,
                tis_cap=objective.tis_cap,
                critic=objective.critic,
            )
            append(memory, op)
    optimizer = memory.config.optimizer
    append(
        memory,
        OptimStep(
            learning_rate=learning_rate,
            beta1=optimizer.beta1,
            beta2=optimizer.beta2,
            eps=optimizer.eps,
            weight_decay=optimizer.weight_decay,
            clip_norm=optimizer.clip_norm,
        ),
    )
    memory.progress.version_issued += 1


def note_answer(memory: Memory, answer: OpResult) -> None:
    """Keep the metrics of an answered op, when it was answered, and the policy that it published."""
    outcome, progress = answer.outcome, memory.progress
    if not isinstance(outcome, OpDone):
        return
    if answer.number == progress.start_op and outcome.policy is not None:
        _list_policy(memory, progress.n_steps_at_start, outcome.policy.version)
    for pending in progress.pending:
        if pending.first_op <= answer.number <= pending.last_op:
            step_times.note(pending, outcome, memory.now_s)
            if outcome.metrics:
                pending.answers.append(outcome.metrics)
            if outcome.policy is not None:
                step = pending.step if pending.phase is Phase.TRAINING else 0
                _list_policy(memory, step, outcome.policy.version)


def _list_policy(memory: Memory, step: int, version: int) -> None:
    """Once, however often the op is answered: a trainer that takes over applies it again."""
    if not memory.policies or memory.policies[-1][1] < version:
        memory.policies = [*memory.policies, (step, version)][-KEEP_POLICIES:]
        memory.change.model["policies"] = memory.policies


def settle(memory: Memory) -> bool:
    """Publish every step whose ops are answered, in order; whether there was one."""
    progress = memory.progress
    n_before = progress.n_published_steps
    while progress.pending and progress.pending[0].last_op <= memory.done_op:
        pending = progress.pending.pop(0)
        progress.n_published_steps += 1
        show(memory)
        metrics = {
            **pending.metrics,
            **trainer_metrics(pending.answers),
            **memory.queue_depths,
            **step_times.times(memory, pending),
            **_rates(memory),
        }
        memory.emit(
            StepCompleted(
                phase=pending.phase,
                step=pending.step,
                n_steps=memory.stage.n_steps,
                version=pending.version,
                updates=pending.n_updates,
                n_episodes=progress.n_episodes,
                metrics=metrics,
            )
        )
        if "reward/mean" in metrics:
            memory.change.run["reward"] = metrics["reward/mean"]
    return progress.n_published_steps > n_before


def show(memory: Memory) -> None:
    """Steps of SFT and of reinforcement learning are shown apart."""
    column = "sft_step" if memory.stage.phase is Phase.SFT else "step"
    memory.change.run[column] = memory.progress.n_published_steps


def _rates(memory: Memory) -> dict[str, float]:
    """Episodes and tokens per second since the step before."""
    progress = memory.progress
    then_s, episodes, tokens = memory.rate_mark
    memory.rate_mark = (memory.now_s, progress.n_episodes, progress.n_tokens)
    elapsed_s = memory.now_s - then_s
    if then_s == 0.0 or elapsed_s <= 0.0:
        return {}
    return {
        "rollout/episodes_s": (progress.n_episodes - episodes) / elapsed_s,
        "rollout/tokens_s": (progress.n_tokens - tokens) / elapsed_s,
        "episode/failed_total": float(failure_limits.n_failed(memory)),
        "stale/dropped_total": float(progress.n_stale_groups),
    }
