"""Which checkpoints a run keeps: the newest, those at round numbers, the best.

Invariant: the newest checkpoint whose answer is known is never deleted: a trainer that takes the
model over begins there. Several saves may be on their way at once, and the answer of any may be the
last one that comes, so a save deletes none that is newer than what was known when it was appended.
"""

import numpy as np

from warren_gateway.coordinator.memory import Memory
from warren_gateway.coordinator.oplog import append
from warren_gateway.coordinator.progress import CheckpointMark
from warren_gateway.coordinator.resuming import landmark
from warren_schemas.config import CheckpointConfig
from warren_schemas.training import OpDone, OpResult, SaveState


def checkpoint(memory: Memory) -> int:
    """Append a checkpoint of the state so far; the number of its op."""
    progress = memory.progress
    name, older = _free_name(memory), progress.checkpoints
    keep = kept(older, memory.config.checkpoint) | _beginnings(memory)
    note = landmark(memory) if memory.source.is_live else None  # a replay is begun anew
    op = append(memory, SaveState(name=name, keep=tuple(sorted(keep)), note=note))
    rewards = progress.recent_rewards
    mark = CheckpointMark(
        name=name,
        op=op,
        version=progress.version_issued,
        step=progress.n_consumed_steps,
        reward=float(np.mean(rewards)) if rewards else None,
        drops=[mark.name for mark in older if mark.name not in keep],
    )
    progress.checkpoints = [*(mark for mark in older if mark.name in keep), mark]
    return op


def _beginnings(memory: Memory) -> set[str]:
    """The names of the one that is known and of those on their way, whose answers are yet to come."""
    marks = memory.progress.checkpoints
    return {mark.name for mark in marks if mark.op >= memory.checkpoint_op}


def _free_name(memory: Memory) -> str:
    """Never one that is taken: the state under it belongs to another op, and may yet be needed."""
    name = f"step-{memory.progress.version_issued:06d}"
    is_taken = any(mark.name == name for mark in memory.progress.checkpoints)
    return f"{name}-op{memory.last_op + 1}" if is_taken else name


def kept(older: list[CheckpointMark], config: CheckpointConfig) -> set[str]:
    """The names that the policy keeps beside a new one; `older` are in the order of their versions."""
    names = {mark.name for mark in older[1 - config.keep_last :]}
    if (every := config.keep_every) is not None:
        names |= {mark.name for mark in older if mark.version % every == 0}
    rewarded = [mark for mark in older if mark.reward is not None]
    best = sorted(rewarded, key=lambda mark: (mark.reward or 0.0, mark.version), reverse=True)
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
