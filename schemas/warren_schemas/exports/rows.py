"""A trajectory as a row of `columns.COLUMNS`."""

from collections.abc import Iterable
from datetime import UTC, datetime

from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.http import TrajectoryView
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.transcript import ChatMessage

REWARD_PART = "reward/"
"""How parts of a composed reward are named among an environment's metrics."""

Row = dict[str, object]


def row(view: TrajectoryView) -> Row:
    """The values by column; times are in UTC."""
    item = view.trajectory
    mask = item.transcript.tokens.sampling_mask or SamplingMask.none(0)
    return {
        **_identity(view),
        **_outcome(view),
        **_texts(item.transcript.messages),
        "n_turns": len(item.transcript.turns),
        "n_tokens": len(item.transcript.tokens),
        "n_sampled_tokens": item.transcript.tokens.n_sampled,
        "started_at": datetime.fromtimestamp(item.started_s, UTC),
        "ended_at": datetime.fromtimestamp(item.ended_s, UTC),
        "duration_s": item.ended_s - item.started_s,
        **item.transcript.times.model_dump(),
        "worker": item.worker,
        "spec": item.spec.model_dump_json(),
        "ids_T": item.transcript.tokens.ids_T,
        "mask_T": item.transcript.tokens.mask_T,
        "logprobs_T": item.transcript.tokens.logprobs_T,
        "versions_T": item.transcript.tokens.versions_T,
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
        "attempt": item.envelope.attempt,
        "purpose": spec.purpose.value,
        "environment": spec.environment,
        "environment_version": item.environment_version,
        "task_split": spec.task.split,
        "task_index": spec.task.index,
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
        "turns": [{"reward": turn.reward} for turn in item.transcript.turns],
        "metrics": {n: value for n, value in reported.items() if not n.startswith(REWARD_PART)},
        "truncated": completed.truncated if completed else None,
        "stop": completed.stop.value if completed else None,
        "failure": failed.kind.value if failed else None,
        "reason": failed.reason if failed else None,
    }


def _versions(item: EpisodeEnded) -> tuple[int | None, int | None]:
    tokens = item.transcript.tokens
    sampled_T = tokens.versions_T[tokens.mask_T == 1]
    return (int(sampled_T.min()), int(sampled_T.max())) if sampled_T.size else (None, None)


def _texts(messages: tuple[ChatMessage, ...]) -> Row:
    said = [n for n, message in enumerate(messages) if message.role == "assistant"]
    first = said[0] if said else len(messages)
    return {
        "prompt": _paragraphs(message.content for message in messages[:first]),
        "response": _paragraphs(messages[n].content for n in said),
        "conversation": _paragraphs(f"{m.role}: {m.content}" for m in messages),
        "messages": [
            {"role": m.role, "content": m.content, "n_images": len(m.images)} for m in messages
        ],
    }


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n\n".join(texts)
