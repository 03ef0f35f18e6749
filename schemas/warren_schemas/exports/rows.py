"""A trajectory as a row of `columns.COLUMNS`."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import numpy as np

from warren_schemas.datasets.exported import REWARD_PART
from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.http import TrajectoryView
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.transcript import Branch, ChatMessage, Tokens

Row = dict[str, object]


def row(view: TrajectoryView) -> Row:
    """The values by column; times are in UTC."""
    item = view.trajectory
    sequences = item.transcript.sequences
    mask = _mask(sequences)
    return {
        **_identity(view),
        **_outcome(view),
        **_texts(item.transcript.branches),
        "n_turns": len(item.transcript.turns),
        "n_tokens": sum(map(len, sequences)),
        "n_sampled_tokens": item.transcript.n_sampled,
        "started_at": datetime.fromtimestamp(item.started_s, UTC),
        "ended_at": datetime.fromtimestamp(item.ended_s, UTC),
        "duration_s": item.ended_s - item.started_s,
        **item.transcript.times.model_dump(),
        "worker": item.worker,
        "spec": item.spec.model_dump_json(),
        "branch_n_tokens": [len(tokens) for tokens in sequences],
        "branch": item.transcript.branch,
        "tokenizer": item.transcript.tokenizer,
        "ids_T": np.concatenate([tokens.ids_T for tokens in sequences]),
        "mask_T": np.concatenate([tokens.mask_T for tokens in sequences]),
        "logprobs_T": np.concatenate([tokens.logprobs_T for tokens in sequences]),
        "versions_T": np.concatenate([tokens.versions_T for tokens in sequences]),
        "sampling_mask_sizes_T": mask.sizes_N,
        "sampling_mask_ids": mask.ids_S,
    }


def _identity(view: TrajectoryView) -> Row:
    item, spec = view.trajectory, view.trajectory.spec
    return {
        "run": item.envelope.run,
        "offset": view.offset,
        "episode": item.envelope.episode,
        "group": spec.group,
        "member": spec.member,
        "group_size": view.group_size,
        "attempt": item.envelope.attempt,
        "purpose": spec.purpose.value,
        "environment": spec.environment,
        "environment_version": item.environment_version,
        "task_split": spec.task.split,
        "task_index": spec.task.index,
        "task_number": item.transcript.task_number,
        "task_id": item.task_id,
        "level": spec.task.level,
        "category": item.transcript.category,
        "seed": spec.seed,
    }


def _outcome(view: TrajectoryView) -> Row:
    item, outcome = view.trajectory, view.trajectory.outcome
    completed = outcome if isinstance(outcome, Completed) else None
    failed = None if isinstance(outcome, Completed) else outcome
    reported = completed.metrics if completed else {}
    oldest, newest = _versions(item)
    return {
        "outcome": outcome.status,
        "fate": view.fate,
        "step": view.step,
        "policy_version_min": oldest,
        "policy_version_max": newest,
        "reward": completed.reward if completed else None,
        "advantage": view.advantage,
        "reward_parts": {
            name.removeprefix(REWARD_PART): value
            for name, value in reported.items()
            if name.startswith(REWARD_PART)
        },
        "turns": [
            {"reward": turn.reward, "is_cut": turn.is_cut, "branch": turn.branch}
            for turn in item.transcript.turns
        ],
        "metrics": {n: value for n, value in reported.items() if not n.startswith(REWARD_PART)},
        "truncated": completed.truncated if completed else None,
        "stop": completed.stop.value if completed else None,
        "failure": failed.kind.value if failed else None,
        "reason": failed.reason if failed else None,
    }


def _versions(item: EpisodeEnded) -> tuple[int | None, int | None]:
    sequences = item.transcript.sequences
    sampled_T = np.concatenate([tokens.versions_T[tokens.mask_T == 1] for tokens in sequences])
    return (int(sampled_T.min()), int(sampled_T.max())) if sampled_T.size else (None, None)


def _mask(sequences: Sequence[Tokens]) -> SamplingMask:
    """Empty where nothing was cut."""
    if all(tokens.sampling_mask is None for tokens in sequences):
        return SamplingMask.none(0)
    return SamplingMask.joined([t.sampling_mask or SamplingMask.none(len(t)) for t in sequences])


def _texts(branches: Sequence[Branch]) -> Row:
    placed = [(branch.number, message) for branch in branches for message in branch.messages]
    messages = [message for _, message in placed]
    said = [n for n, message in enumerate(messages) if message.is_action]
    first = said[0] if said else len(messages)
    return {
        "prompt": _paragraphs(message.content for message in messages[:first]),
        "response": _paragraphs(messages[n].content for n in said),
        "conversation": _paragraphs(f"{m.role}: {m.content}" for m in messages),
        "messages": [_message(number, message) for number, message in placed],
    }


def _message(branch: int, message: ChatMessage) -> Row:
    return {
        "role": message.role,
        "content": message.content,
        "n_images": len(message.images),
        "is_quoted": message.is_quoted,
        "branch": branch,
    }


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n\n".join(texts)
