"""Checkpoints: when they are made, how they are named, and which are kept.

Invariants: a checkpoint's name holds the step that every list shows, and no two of a model share one.
The newest checkpoint whose answer is known is never deleted: a trainer that takes the
model over begins there. Several saves may be on their way at once, and the answer of any may be the
last one that comes, so a save deletes none that is newer than what was known when it was appended.
"""

import numpy as np

from warren_gateway.coordinator.learning.op_log import append
from warren_gateway.coordinator.progress import CheckpointMark
from warren_gateway.coordinator.resuming import landmark
from warren_gateway.coordinator.state import Memory
from warren_schemas.config import CheckpointConfig
from warren_schemas.events import Phase
from warren_schemas.training import OpDone, OpResult, SaveState


def checkpoint_if_due(memory: Memory) -> None:
    """Append a checkpoint after every so many steps, if there is anything new to save."""
    saved_op = max((mark.op for mark in memory.progress.checkpoints), default=0)
    every = memory.config.checkpoint.every_steps
    if memory.progress.n_consumed_steps % every == 0 and memory.last_op > saved_op:
        _checkpoint(memory)


def checkpoint_at_end(memory: Memory) -> None:
    """Append the last checkpoint, unless this very step has one, or nothing was ever done."""
    marks = memory.progress.checkpoints
    if memory.last_op and not (marks and marks[-1].name == _name(memory)):
        _checkpoint(memory)


def is_saved(memory: Memory) -> bool:
    """Whether the newest checkpoint is."""
    marks = memory.progress.checkpoints
    return not marks or memory.checkpoint_op >= marks[-1].op


def _checkpoint(memory: Memory) -> None:
    progress = memory.progress
    name, older = _name(memory), progress.checkpoints
    keep = kept(older, memory.config.checkpoint) | _beginnings(memory)
    note = landmark(memory) if memory.source.is_live else None  # a replay is begun anew
    op = append(memory, SaveState(name=name, keep=tuple(sorted(keep)), note=note))
    rewards = progress.recent_rewards
    mark = CheckpointMark(
        name=name,
        op=op,
        version=progress.version_issued,
        step=progress.n_trained_steps,
        reward=float(np.mean(rewards)) if rewards else None,
        drops=[mark.name for mark in older if mark.name not in keep],
    )
    progress.checkpoints = [*(mark for mark in older if mark.name in keep), mark]


def _beginnings(memory: Memory) -> set[str]:
    """The names of the one that is known and of those on their way, whose answers are yet to come."""
    marks = memory.progress.checkpoints
    return {mark.name for mark in marks if mark.op >= memory.checkpoint_op}


def _name(memory: Memory) -> str:
    """The step it is made after; steps of a model only rise, so no two of its checkpoints share one."""
    if memory.stage.phase is Phase.SFT:
        return f"sft-{memory.progress.n_consumed_steps:06d}"
    return f"step-{memory.progress.n_trained_steps:06d}"


def kept(older: list[CheckpointMark], config: CheckpointConfig) -> set[str]:
    """The names that the policy keeps beside a new one; `older` are in the order of their ops."""
    names = {mark.name for mark in older[1 - config.keep_last :]}
    if (every := config.keep_every) is not None:
        names |= {mark.name for mark in older if mark.step and mark.step % every == 0}
    rewarded = [mark for mark in older if mark.reward is not None]
    best = sorted(rewarded, key=lambda mark: (mark.reward or 0.0, mark.op), reverse=True)
    return names | {mark.name for mark in best[: config.keep_best]}


def note_saved(memory: Memory, answer: OpResult) -> None:
    """List the checkpoint that an answer tells of, and no longer those that it replaced."""
    outcome = answer.outcome
    if not isinstance(outcome, OpDone) or outcome.checkpoint_url is None:
        return
    for mark in memory.progress.checkpoints:
        if mark.op != answer.number:
            continue
        memory.change.forgotten |= set(mark.drops)
        memory.change.saved.append(
            {
                "model_id": memory.model,
                "name": mark.name,
                "op": mark.op,
                "version": mark.version,
                "step": mark.step,
                "reward": mark.reward,
                "url": outcome.checkpoint_url,
                "size_bytes": outcome.checkpoint_bytes,
                "created_s": memory.now_s,
            }
        )
