"""The best episodes of a recording as rows of a data set."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.support.factories import EXAMPLES

import warren
from warren.datasets.collecting import collect_rows
from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose, Failed, FailureKind
from warren_schemas.http import TrajectoryView
from warren_schemas.transcript import ChatMessage, Transcript

Ending = tuple[int, float | None, str]
"""Task, reward (None for a failure), fate."""
EPISODES: list[Ending] = [
    (0, 1.0, "trained"), (0, 0.5, "trained"), (0, 1.0, "evaluated"), (1, 0.25, "stale"),
    (1, 0.75, "trained"), (2, None, "failed"), (2, 1.0, "superseded"), (3, 1.0, "abandoned"),
]  # fmt: skip


def view(number: int, ending: Ending, **spec: object) -> TrajectoryView:
    task, reward, fate = ending
    example = EXAMPLES[EpisodeEnded][0]
    assert isinstance(example, EpisodeEnded)
    outcome = (
        Failed(kind=FailureKind.LOST, reason="gone") if reward is None else Completed(reward=reward)
    )
    said = (
        ChatMessage(role="user", content=f"task {task}"),
        ChatMessage(role="assistant", content=f"answer {number}"),
    )
    played = example.spec.model_copy(
        update={"task": example.spec.task.model_copy(update={"index": task}), **spec}
    )
    ended = example.model_copy(
        update={"spec": played, "outcome": outcome, "transcript": Transcript(messages=said)}
    )
    return TrajectoryView(offset=number, fate=fate, trajectory=ended)


async def recorded(**spec: object) -> AsyncGenerator[TrajectoryView]:
    for number, ending in enumerate(EPISODES):
        yield view(number, ending, **spec)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def answers(path: Path, **wanted: object) -> list[str]:
    purpose = {"purpose": EpisodePurpose.TRAIN}
    n_rows = await collect_rows(recorded(**purpose), path, **wanted)  # pyright: ignore[reportArgumentType]
    rows = read(path)
    assert n_rows == len(rows)
    return [row["messages"][1]["content"] for row in rows]


async def test_what_ended_well_is_collected_in_the_order_of_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    assert await answers(path) == [f"answer {n}" for n in range(5)]
    assert await answers(path, min_reward=0.75) == ["answer 0", "answer 2", "answer 4"]
    assert await answers(path, best_of=1) == ["answer 0", "answer 4"], "the earlier of equals"
    assert await answers(path, best_of=2) == ["answer 0", "answer 2", "answer 3", "answer 4"]
    assert await answers(path, best_of=1, min_reward=1.0) == ["answer 0"]


async def test_nothing_at_all_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    with pytest.raises(warren.ConfigurationError, match="No recorded episode is good enough"):
        await answers(path, min_reward=2.0)
    with pytest.raises(warren.ConfigurationError, match="at least 1"):
        await answers(path, best_of=0)
    with pytest.raises(warren.ConfigurationError, match="No recorded episode"):
        await collect_rows(recorded(purpose=EpisodePurpose.DEMONSTRATE), path)
