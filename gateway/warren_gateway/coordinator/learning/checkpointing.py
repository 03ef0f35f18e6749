"""Checkpoints: when they are made, how they are named, and which are kept.

Invariants: a checkpoint's name holds the step that every list shows, and no two of a model share one.
The newest checkpoint whose answer is known is never deleted: a trainer that takes the
model over begins there. Several saves may be on their way at once, and the answer of any may be the
last one that comes, so a save deletes none that is newer than what was known when it was appended.
"""

import numpy as np

from warren_gateway.coordinator.learning import client_checkpoints
from warren_gateway.coordinator.learning.op_log import append
from warren_gateway.coordinator.learning.resuming import checkpoint_position
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.learning import CheckpointMark, LearningState
from warren_schemas.config import CheckpointConfig
from warren_schemas.events import Phase
from warren_schemas.training import OpDone, OpResult, SaveState


def checkpoint_if_due(state: CoordinatorState) -> None:
    """Append a checkpoint after every so many steps, if there is anything new to save."""
    saved_op = max((mark.op for mark in state.learning.checkpoints.marks), default=0)
    every = state.config.checkpoint.every_steps
    if state.learning.steps.n_consumed % every == 0 and state.learning.ops.last > saved_op:
        _checkpoint(state)


def checkpoint_if_new(state: CoordinatorState) -> bool:
    """Append a checkpoint unless this very step has one, or nothing was ever done; whether it was.

    An evaluation alone changes no weights.
    """
    marks = state.learning.checkpoints.marks
    if state.config.is_evaluation:
        return False
    if state.is_clients:
        return _save_clients(state)
    if not state.learning.ops.last or (marks and marks[-1].name == _name(state)):
        return False
    _checkpoint(state)
    return True


def _save_clients(state: CoordinatorState) -> bool:
    is_new = state.learning.ops.last > client_checkpoints.newest_op(state.learning)
    if is_new:
        client_checkpoints.save(state)
    return is_new


def checkpoint_at_end(state: CoordinatorState) -> None:
    """Append the last checkpoint, once, unless this very step has one, or nothing was ever done."""
    if state.learning.checkpoints.is_final_issued:
        return
    state.learning.checkpoints.is_final_issued = True
    checkpoint_if_new(state)


def is_saved(learning: LearningState) -> bool:
    """Whether the newest checkpoint is."""
    marks = learning.checkpoints.marks
    return not marks or learning.checkpoints.newest_op >= marks[-1].op


def _checkpoint(state: CoordinatorState) -> None:
    name, older = _name(state), state.learning.checkpoints.marks
    keep = kept(older, state.config.checkpoint) | _beginnings(state)
    note = checkpoint_position(state) if state.source.is_live else None  # a replay is begun anew
    op = append(state, SaveState(name=name, keep=tuple(sorted(keep)), note=note))
    rewards = state.learning.batches.recent_rewards
    mark = CheckpointMark(
        name=name,
        op=op,
        version=state.learning.policy.version_issued,
        step=state.learning.steps.n_trained,
        reward=float(np.mean(rewards)) if rewards else None,
        drops=[mark.name for mark in older if mark.name not in keep],
    )
    state.learning.checkpoints.marks = [*(mark for mark in older if mark.name in keep), mark]


def _beginnings(state: CoordinatorState) -> set[str]:
    """The names of the one that is known and of those on their way, whose answers are yet to come."""
    marks = state.learning.checkpoints.marks
    return {mark.name for mark in marks if mark.op >= state.learning.checkpoints.newest_op}


def _name(state: CoordinatorState) -> str:
    """The step it is made after; steps of a model only rise, so no two of its checkpoints share one."""
    if state.stage.phase is Phase.SFT:
        return f"sft-{state.learning.steps.n_consumed:06d}"
    return f"step-{state.learning.steps.n_trained:06d}"


def kept(older: list[CheckpointMark], config: CheckpointConfig) -> set[str]:
    """The names that the policy keeps beside a new one; `older` are in the order of their ops."""
    names = {mark.name for mark in older[1 - config.keep_last :]}
    if (every := config.keep_every) is not None:
        names |= {mark.name for mark in older if mark.step and mark.step % every == 0}
    rewarded = [mark for mark in older if mark.reward is not None]
    best = sorted(rewarded, key=lambda mark: (mark.reward or 0.0, mark.op), reverse=True)
    return names | {mark.name for mark in best[: config.keep_best]}


def note_saved(state: CoordinatorState, answer: OpResult) -> None:
    """List the checkpoint that an answer tells of, and no longer those that it replaced."""
    outcome = answer.outcome
    if not isinstance(outcome, OpDone) or outcome.checkpoint_url is None:
        return
    for mark in state.learning.checkpoints.marks:
        if mark.op != answer.number:
            continue
        mark.url = outcome.checkpoint_url
        state.change.deleted |= set(mark.drops)
        state.change.saved.append(
            {
                "model_id": state.model,
                "name": mark.label or mark.name,
                "op": mark.op,
                "version": outcome.version if mark.is_clients else mark.version,
                "step": outcome.version if mark.is_clients else mark.step,
                "expires_s": mark.expires_s,
                "metadata_": mark.metadata,
                "is_automatic": mark.is_clients and mark.label is None,
                "reward": mark.reward,
                "url": outcome.checkpoint_url,
                "size_bytes": outcome.checkpoint_bytes,
                "created_s": state.now_s,
            }
        )
