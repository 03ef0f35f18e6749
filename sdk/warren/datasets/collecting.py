"""Rows from what a run recorded: its best episodes, for rejection sampling and distillation.

They are trajectories as exports have them, with the tokens that were sampled, or messages, which become tokens anew.

The filter is that of replays, and judges each episode by itself. Episodes that failed or were superseded never count, and abandoned
ones where the filter names them. Of episodes of one task the best are
chosen, the earlier of equals, and rows come in the order of the recording. What was said lies on the disk meanwhile, and only
its places in memory.
"""

import tempfile
from collections import defaultdict
from collections.abc import AsyncIterable
from pathlib import Path
from typing import IO, Literal, NamedTuple

import orjson

from warren.errors import ConfigurationError
from warren_schemas.config import RecordedFacts, RecordingFilter
from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose
from warren_schemas.exports.files import json_lines
from warren_schemas.http import DatasetKind, TrajectoryView

CollectedKind = Literal[DatasetKind.TRAJECTORIES, DatasetKind.MESSAGES]

EVERYTHING = RecordingFilter()
_FATES = ("trained", "evaluated", "stale")
"""Of episodes that ended well, whatever was made of them; where the filter names none."""
_Task = tuple[int, str, int]


class _Place(NamedTuple):
    task: _Task
    reward: float
    number: int
    offset: int
    size: int


async def collect_rows(
    trajectories: AsyncIterable[TrajectoryView],
    path: Path,
    *,
    where: RecordingFilter = EVERYTHING,
    best_of: int | None = None,
    kind: CollectedKind = DatasetKind.TRAJECTORIES,
) -> int:
    """Write them as JSON lines; how many there are. Raises `ConfigurationError` where there is none, `OSError`."""
    if best_of is not None and best_of < 1:
        raise ConfigurationError(f"Of each task at least 1 episode is kept, not {best_of}")
    places: list[_Place] = []
    fates = set(where.fates or _FATES)
    with tempfile.TemporaryFile() as spool:
        async for view in trajectories:
            ended, outcome = view.trajectory, view.trajectory.outcome
            is_demonstrated = ended.spec.purpose is EpisodePurpose.DEMONSTRATE
            if not isinstance(outcome, Completed) or is_demonstrated:
                continue
            facts = _facts(ended, outcome.reward, view.fate)
            if facts.fates <= fates and where.admits(facts):
                places.append(_spooled(spool, view, outcome.reward, len(places), kind))
        chosen = sorted(_best(places, best_of), key=lambda place: place.number)
        if not chosen:
            raise ConfigurationError(
                "No recorded episode is good enough",
                hint="Ask for less of them, or choose another run.",
            )
        return _write(spool, chosen, path)


def _facts(ended: EpisodeEnded, reward: float, fate: str | None) -> RecordedFacts:
    sampled_by = [
        int(version)
        for tokens in ended.transcript.sequences
        for version in tokens.versions_T[tokens.mask_T == 1]
    ]
    return RecordedFacts(
        reward=reward,
        environment=ended.spec.environment,
        category=ended.transcript.category,
        versions=(min(sampled_by, default=-1), max(sampled_by, default=-1)),
        fates=frozenset([fate or "undecided"]),
        ended_s=ended.ended_s,
    )


def _spooled(
    spool: IO[bytes], view: TrajectoryView, reward: float, number: int, kind: CollectedKind
) -> _Place:
    ended, offset = view.trajectory, spool.tell()
    _require_text(ended)
    is_exact = kind is DatasetKind.TRAJECTORIES
    text = json_lines([view]) if is_exact else _conversations(ended, reward)
    spool.write(text)
    return _Place(_task(ended), reward, number, offset, len(text))


def _task(ended: EpisodeEnded) -> _Task:
    """The same for all episodes of one task, in one epoch or several."""
    task, number = ended.spec.task, ended.transcript.task_number
    return ended.spec.environment_number, task.split, task.index if number is None else number


def _require_text(ended: EpisodeEnded) -> None:
    if any(m.images for branch in ended.transcript.branches for m in branch.messages):
        raise ConfigurationError(
            "The run's episodes show images, which can't be learned",
            hint="Trainers read text alone.",
        )


def _conversations(ended: EpisodeEnded, reward: float) -> bytes:
    """A row for each branch of the episode, with the messages of that."""
    messages = [m for branch in ended.transcript.branches for m in branch.messages]
    if any(m.n_tokens for m in messages):
        raise ConfigurationError(
            "The run's episodes show tokens, and conversations have words",
            hint="Collect them as trajectories: their tokens are learned as they are.",
        )
    rows = [
        {
            "messages": [{"role": m.role, "content": m.content} for m in branch.messages],
            "reward": reward,
            "run": ended.envelope.run,
            "environment": ended.spec.environment,
            "category": ended.transcript.category,
            "policy_version": branch.tokens.newest_version,
        }
        for branch in ended.transcript.branches
        if any(m.role == "assistant" for m in branch.messages)
    ]
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def _best(places: list[_Place], best_of: int | None) -> list[_Place]:
    if best_of is None:
        return places
    by_task: dict[_Task, list[_Place]] = defaultdict(list)
    for place in places:
        by_task[place.task].append(place)
    return [
        place
        for of_task in by_task.values()
        for place in sorted(of_task, key=lambda p: -p.reward)[:best_of]
    ]


def _write(spool: IO[bytes], chosen: list[_Place], path: Path) -> int:
    n_rows = 0
    with path.open("wb") as target:
        for place in chosen:
            spool.seek(place.offset)
            text = spool.read(place.size)
            n_rows += text.count(b"\n")
            target.write(text)
    return n_rows
