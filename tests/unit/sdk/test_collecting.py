"""The best episodes of a recording as rows of a data set."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.factories import EXAMPLES

import warren
from warren.datasets.collecting import collect_rows
from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose, Failed, FailureKind
from warren_schemas.http import DatasetKind, TrajectoryView
from warren_schemas.transcript import ChatMessage, Tokens, Transcript

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
    await collect_rows(recorded(**purpose), path, **wanted)  # pyright: ignore[reportArgumentType]
    exact = [(row["run"], row["response"], row["reward"]) for row in read(path)]
    wanted["kind"] = DatasetKind.MESSAGES
    n_rows = await collect_rows(recorded(**purpose), path, **wanted)  # pyright: ignore[reportArgumentType]
    rows = read(path)
    said = [(row["run"], row["messages"][1]["content"], row["reward"]) for row in rows]
    assert exact == said, "as trajectories the same episodes are chosen"
    assert n_rows == len(rows)
    return [row["messages"][1]["content"] for row in rows]


async def test_what_ended_well_is_collected_in_the_order_of_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    assert await answers(path) == [f"answer {n}" for n in range(5)]
    assert await answers(path, where=warren.RecordingFilter(min_reward=0.75)) == [
        "answer 0",
        "answer 2",
        "answer 4",
    ]
    assert await answers(path, best_of=1) == ["answer 0", "answer 4"], "the earlier of equals"
    assert await answers(path, best_of=2) == ["answer 0", "answer 2", "answer 3", "answer 4"]
    assert await answers(path, best_of=1, where=warren.RecordingFilter(min_reward=1.0)) == [
        "answer 0"
    ]


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ({"fates": ("evaluated",)}, [2]),
        ({"fates": ("abandoned", "stale")}, [3, 7]),
        ({"max_reward": 0.5}, [1, 3]),
        ({"environments": ("guess",), "categories": ("odd",)}, [1, 3]),
        ({"until_s": 3.0}, [0, 1, 2]),
        ({"min_version": 3, "max_version": 3}, [3]),
    ],
)
async def test_the_filter_of_replays_judges_each_episode(
    tmp_path: Path, where: dict[str, object], numbers: list[int]
) -> None:
    def facts(view: TrajectoryView) -> TrajectoryView:
        """Its category, policy version and end follow from its number."""
        number, ended = view.offset, view.trajectory
        tokens = Tokens(
            ids_T=np.array([1, 2], np.int32),
            mask_T=np.array([0, 1], np.uint8),
            logprobs_T=np.zeros(2, np.float32),
            versions_T=np.array([-1, number], np.int32),
        )
        transcript = ended.transcript.model_copy(
            update={"category": "odd" if number % 2 else "even", "tokens": tokens}
        )
        changed = ended.model_copy(update={"transcript": transcript, "ended_s": float(number)})
        return view.model_copy(update={"trajectory": changed})

    async def views() -> AsyncGenerator[TrajectoryView]:
        async for each in recorded(purpose=EpisodePurpose.TRAIN, environment="guess"):
            yield facts(each)

    path = tmp_path / "train.jsonl"
    await collect_rows(views(), path, where=warren.RecordingFilter.model_validate(where))
    assert [row["messages"][1]["content"] for row in read(path)] == [f"answer {n}" for n in numbers]


async def test_nothing_at_all_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    with pytest.raises(warren.ConfigurationError, match="No recorded episode is good enough"):
        await answers(path, where=warren.RecordingFilter(min_reward=2.0))
    with pytest.raises(warren.ConfigurationError, match="at least 1"):
        await answers(path, best_of=0)
    with pytest.raises(warren.ConfigurationError, match="No recorded episode"):
        await collect_rows(recorded(purpose=EpisodePurpose.DEMONSTRATE), path)


async def test_what_was_shown_in_tokens_is_a_trajectory_and_no_conversation(tmp_path: Path) -> None:
    shown = ChatMessage(role="user", content="", n_tokens=2)

    async def views() -> AsyncGenerator[TrajectoryView]:
        async for each in recorded(purpose=EpisodePurpose.TRAIN):
            transcript = Transcript(messages=(shown, *each.trajectory.transcript.messages))
            ended = each.trajectory.model_copy(update={"transcript": transcript})
            yield each.model_copy(update={"trajectory": ended})

    path = tmp_path / "train.jsonl"
    assert await collect_rows(views(), path) == 5
    with pytest.raises(warren.ConfigurationError, match="episodes show tokens"):
        await collect_rows(views(), path, kind=DatasetKind.MESSAGES)
