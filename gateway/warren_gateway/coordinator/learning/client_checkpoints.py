"""Checkpoints of a model that its client drives: those that it asks for, and those that spare a failover work.

Invariants: a folder has the number of the op that writes it, so no two have one, and a trainer that takes over
never finds a newer state under the URL that it is given. A client's own stay until they are deleted, overwritten
or expire; one that is to be overwritten until what takes its place is saved. Of the others only the newest that is
known, and what is newer, are kept.
"""

from collections.abc import Collection
from typing import Any

from warren_gateway.coordinator.learning.op_log import append
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.learning import CheckpointMark, LearningState
from warren_schemas.training import SaveState


def save(
    state: CoordinatorState,
    *,
    label: str | None = None,
    expires_s: float | None = None,
    metadata: dict[str, Any] | None = None,
) -> int:
    """Append a checkpoint, with a name that its client gave or without; the number of the op."""
    learning = state.learning
    known = {
        mark.name
        for mark in learning.checkpoints.marks
        if mark.op >= learning.checkpoints.newest_op
    }
    kept = [
        mark for mark in learning.checkpoints.marks if mark.label is not None or mark.name in known
    ]
    own = {mark.name for mark in kept if mark.label is None or mark.label != label}
    keep = own | known | {_folder(learning.checkpoints.newest_op)}
    name = _folder(learning.ops.last + 1)
    op = append(state, SaveState(name=name, keep=tuple(sorted(keep))))
    mark = CheckpointMark(
        name=name,
        op=op,
        version=0,
        step=0,
        reward=None,
        is_clients=True,
        label=label,
        expires_s=expires_s,
        metadata=metadata,
        drops=[
            mark.name
            for mark in learning.checkpoints.marks
            if mark.label is None and mark not in kept
        ],
    )
    learning.checkpoints.marks = [*kept, mark]
    return op


def find(state: CoordinatorState, label: str) -> CheckpointMark | None:
    """The newest of this name, whether it is saved already or about to be."""
    marks = reversed(state.learning.checkpoints.marks)
    return next((mark for mark in marks if mark.label == label), None)


def newest_op(learning: LearningState) -> int:
    """Of the newest checkpoint that is asked for."""
    return max(
        (mark.op for mark in learning.checkpoints.marks), default=learning.checkpoints.newest_op
    )


def forget_failed(learning: LearningState, op: int) -> None:
    """It could not be written."""
    learning.checkpoints.marks = [mark for mark in learning.checkpoints.marks if mark.op != op]


def forget_overwritten(learning: LearningState, op: int) -> None:
    """What this op has saved takes the place of older ones with its name."""
    label = next((mark.label for mark in learning.checkpoints.marks if mark.op == op), None)
    learning.checkpoints.marks = [
        mark
        for mark in learning.checkpoints.marks
        if mark.op >= op or label is None or mark.label != label
    ]


def forget_deleted(learning: LearningState, stored: Collection[str]) -> None:
    """Those that were saved and are not in the store any more: the next one that is saved drops their folders."""
    learning.checkpoints.marks = [
        mark
        for mark in learning.checkpoints.marks
        if mark.url is None or mark.label is None or mark.label in stored
    ]


def _folder(op: int) -> str:
    return f"op-{op:08d}"
