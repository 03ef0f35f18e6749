"""A trainer that stands idle because its run waits for an environment: others may have it meanwhile.

A full-parameter model has its trainer to itself. When nobody has hosted an environment of its run for
`limits.stalled_after_s`, the model is saved and the lease given back; once somebody does, any trainer takes
the model at that checkpoint.

Invariants: the lease is given back only when every op is answered and nothing that is in flight could lead to
another one; a model that was given back asks for no trainer before it has something to do. It is not counted as one that
trainers lose.
"""

from warren_gateway.coordinator.learning import checkpointing, op_log
from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_schemas.events import Phase
from warren_schemas.training import is_full

_NEEDS_EPISODES = (Phase.SFT, Phase.EVALUATION, Phase.TRAINING)


def release_if_idle(state: CoordinatorState) -> None:
    """To be called when what is missing is known."""
    if not _is_idle(state) or not _is_patience_over(state):
        return
    if checkpointing.checkpoint_if_new(state):
        return  # its answer comes first
    trainer_lease.release(state)


def is_needed(state: CoordinatorState) -> bool:
    """Whether a model without a trainer has something to do for one, as far as it knows."""
    return not (state.lease.is_released and state.rollouts.unhosted and _is_answered(state))


def _is_idle(state: CoordinatorState) -> bool:
    unhosted, groups = state.rollouts.unhosted, state.rollouts.groups.values()
    return (
        is_full(state.spec)
        and state.lease.is_opened
        and bool(unhosted)
        and state.uses_environments
        and state.stage.phase in _NEEDS_EPISODES
        and _is_answered(state)
        and all(group.environment in unhosted for group in groups if not group.is_complete)
    )


def _is_answered(state: CoordinatorState) -> bool:
    return not op_log.has_unanswered(state.learning)


def _is_patience_over(state: CoordinatorState) -> bool:
    since_s = state.waiting.missing_since_s
    is_told = since_s is not None and not state.observed.is_broker_away
    return is_told and state.now_s - (since_s or 0.0) >= state.config.limits.stalled_after_s
