"""Steps: from a batch of data to ops in the log, and from their answers to a published policy.

Invariant: a step counts as published when every op of it is answered; steps are published in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from warren_gateway.coordinator import alarms
from warren_gateway.coordinator.learning import step_times
from warren_gateway.coordinator.learning.batch_metrics import held_out_metrics, trainer_metrics
from warren_gateway.coordinator.learning.batches import Datum, by_way_sampled, token_batches
from warren_gateway.coordinator.learning.checkpointing import checkpoint_if_due
from warren_gateway.coordinator.learning.op_log import append
from warren_gateway.coordinator.rollouts import evaluation, failure_limits
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.learning import PendingStep
from warren_gateway.runs.kept_versions import in_use
from warren_schemas.config import (
    AlgorithmConfig,
    Critic,
    CrossEntropyLoss,
    DroLoss,
    KlPenalty,
    Loss,
)
from warren_schemas.events import Phase, StepCompleted, WarningRaised
from warren_schemas.training import (
    KEEP_POLICIES,
    CriticTerm,
    Forward,
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
    state: CoordinatorState,
    data: Sequence[Datum],
    objective: Objective,
    *,
    learning_rate: float,
    publish: bool,
    metrics: dict[str, float],
    held_out: Sequence[Datum] = (),
) -> None:
    """Append the ops of one step; a step without data has none and changes no version, but that the last one of SFT
    publishes what those before it have learned.

    Of `held_out` the policy's loss is measured once the step is taken.
    """
    first_op = state.learning.ops.last + 1
    if data:
        _append_update(state, data, objective, learning_rate)
        metrics = {**metrics, "policy/learning_rate": learning_rate}
    if publish and (data or _is_sft_unpublished(state)):
        append(state, PublishPolicy(keep=_versions_in_use(state)))
    first_evaluation_op = _append_evaluation(state, held_out)
    has_ops = state.learning.ops.last >= first_op
    state.learning.steps.n_consumed += 1
    if state.stage.phase is Phase.TRAINING:
        state.learning.steps.n_trained = state.learning.steps.n_consumed
    checkpoint_if_due(state)
    state.learning.steps.pending.append(
        PendingStep(
            step=state.learning.steps.n_consumed,
            phase=state.stage.phase,
            version=state.learning.policy.version_issued,
            n_updates=state.learning.steps.n_updates,
            first_op=first_op,
            last_op=state.learning.ops.last if has_ops else 0,
            first_evaluation_op=first_evaluation_op,
            metrics=metrics,
            batched_s=state.now_s,
        )
    )


def _is_sft_unpublished(state: CoordinatorState) -> bool:
    """Only its last step publishes."""
    learning = state.learning
    is_sft = state.stage.phase is Phase.SFT
    return is_sft and learning.policy.version_issued > learning.policy.version


def _append_update(
    state: CoordinatorState, data: Sequence[Datum], objective: Objective, learning_rate: float
) -> None:
    for way, part in by_way_sampled(data).items():
        for batch in token_batches(part):
            op = ForwardBackward(
                loss=objective.loss,
                batch=batch,
                temperature=way.temperature,
                repetition_penalty=way.repetition_penalty,
                kl=objective.kl,
                entropy_coefficient=objective.entropy_coefficient,
                tis_cap=objective.tis_cap,
                critic=objective.critic,
            )
            append(state, op)
    optimizer = state.config.optimizer
    append(
        state,
        OptimStep(
            learning_rate=learning_rate,
            beta1=optimizer.beta1,
            beta2=optimizer.beta2,
            eps=optimizer.eps,
            weight_decay=optimizer.weight_decay,
            clip_norm=optimizer.clip_norm,
        ),
    )
    state.learning.policy.version_issued += 1


def _append_evaluation(state: CoordinatorState, held_out: Sequence[Datum]) -> int:
    """The number of its first op; 0 without data."""
    first_op = state.learning.ops.last + 1
    for batch in token_batches(held_out):
        append(state, Forward(loss=CrossEntropyLoss(), batch=batch))
    return first_op if held_out else 0


def _versions_in_use(state: CoordinatorState) -> tuple[int, ...]:
    """What must not be deleted, however many newer versions are published."""
    evaluated = evaluation.versions_in_use(state.rollouts)
    return tuple(sorted({*evaluated, *in_use(state.observed.served, state.now_s)}))


def publish_unpublished(state: CoordinatorState) -> None:
    """SFT that ends before its last step has published nothing: do that, once its steps are answered."""
    learning = state.learning
    is_quiet = not learning.steps.pending and learning.ops.done == learning.ops.last
    if is_quiet and learning.policy.version_issued > learning.policy.version:
        append(state, PublishPolicy(keep=_versions_in_use(state)))


def note_answer(state: CoordinatorState, answer: OpResult) -> None:
    """Keep the metrics of an answered op, when it was answered, and the policy that it published."""
    outcome = answer.outcome
    if not isinstance(outcome, OpDone):
        return
    if outcome.notice is not None:
        state.emit(WarningRaised(message=outcome.notice))
    if outcome.policy is not None and not _is_of_step(state, answer.number):
        list_policy(state, state.learning.steps.n_trained, outcome.policy.version)
    for pending in state.learning.steps.pending:
        if pending.first_op <= answer.number <= pending.last_op:
            is_evaluation = pending.measures(answer.number) and outcome.checkpoint_url is None
            step_times.note(pending, outcome, state.now_s, is_evaluation=is_evaluation)
            if outcome.metrics:
                known = pending.evaluation_answers if is_evaluation else pending.answers
                known.append(outcome.metrics)
            if outcome.policy is not None:
                step = pending.step if pending.phase is Phase.TRAINING else 0
                list_policy(state, step, outcome.policy.version)


def _is_of_step(state: CoordinatorState, number: int) -> bool:
    return any(step.first_op <= number <= step.last_op for step in state.learning.steps.pending)


def list_policy(state: CoordinatorState, step: int, version: int) -> None:
    """Once, however often the op is answered: a trainer that takes over applies it again."""
    if not state.learning.policy.published or state.learning.policy.published[-1][1] < version:
        state.learning.policy.published = [*state.learning.policy.published, (step, version)][
            -KEEP_POLICIES:
        ]
        state.change.model["policies"] = state.learning.policy.published


def settle(state: CoordinatorState) -> bool:
    """Publish every step whose ops are answered, in order; whether there was one."""
    n_before = state.learning.steps.n_published
    while (
        state.learning.steps.pending
        and state.learning.steps.pending[0].last_op <= state.learning.ops.done
    ):
        pending = state.learning.steps.pending.pop(0)
        state.learning.steps.n_published += 1
        show(state)
        if pending.phase is Phase.TRAINING:
            evaluation.note_published(state, pending.step, pending.version)
        metrics = {
            **pending.metrics,
            **trainer_metrics(pending.answers),
            **held_out_metrics(pending.evaluation_answers),
            **state.observed.queue_depths,
            **step_times.times(state, pending),
            **_rates(state),
            **_counts(state),
        }
        if pending.phase is Phase.TRAINING:
            metrics = alarms.note_step(state, metrics)
        state.emit(
            StepCompleted(
                phase=pending.phase,
                step=pending.step,
                n_steps=state.stage.n_steps,
                version=pending.version,
                updates=pending.n_updates,
                n_episodes=state.rollouts.n_episodes,
                metrics=metrics,
            )
        )
        if "reward/mean" in metrics:
            state.change.run["reward"] = metrics["reward/mean"]
    return state.learning.steps.n_published > n_before


def show(state: CoordinatorState) -> None:
    """Steps of SFT and of reinforcement learning are shown apart."""
    column = "sft_step" if state.stage.phase is Phase.SFT else "step"
    state.change.run[column] = state.learning.steps.n_published


def _rates(state: CoordinatorState) -> dict[str, float]:
    """Episodes and tokens per second since the step before."""
    then_s, episodes, tokens = state.learning.batches.rate_mark
    state.learning.batches.rate_mark = (
        state.now_s,
        state.rollouts.n_episodes,
        state.rollouts.n_tokens,
    )
    elapsed_s = state.now_s - then_s
    if then_s == 0.0 or elapsed_s <= 0.0:
        return {}
    return {
        "rollout/episodes_s": (state.rollouts.n_episodes - episodes) / elapsed_s,
        "rollout/tokens_s": (state.rollouts.n_tokens - tokens) / elapsed_s,
    }


def _counts(state: CoordinatorState) -> dict[str, float]:
    """Of the whole run so far: what failed, and what was not trained on."""
    failures, dropped = failure_limits.by_kind(state.rollouts), state.rollouts.dropped_groups
    return {
        "episode/failed_total": float(failure_limits.n_failed(state.rollouts)),
        **{f"episode/failed_total/{kind}": float(n) for kind, n in failures.items()},
        "group/dropped_total": float(sum(dropped.values())),
        **{f"group/dropped_total/{reason}": float(n) for reason, n in dropped.items()},
    }
