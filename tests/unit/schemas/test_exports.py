"""Exports: what pyarrow and pandas read back is what was recorded, the same from both forms."""

# pandas has no types of its own, and pyarrow neither
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from tests.support.factories import (
    make_episode_ended,
    make_failed_episode,
    make_tokens,
    make_transcript,
)

from warren_schemas.episode import Completed
from warren_schemas.exports.columns import COLUMNS
from warren_schemas.exports.files import JsonLinesFile, ParquetFile
from warren_schemas.http import TrajectoryView
from warren_schemas.transcript import ChatMessage, Turn

NAMES = [column.name for column in COLUMNS]
SAID = [("system", "Guess."), ("user", "?"), ("assistant", "5"), ("user", "<"), ("assistant", "3")]
STARTED, ENDED = datetime(2026, 3, 1, 12, 0, 0, 250000, UTC), datetime(2026, 3, 1, 12, 0, 2, 0, UTC)


@pytest.fixture
def views() -> list[TrajectoryView]:
    transcript = make_transcript(
        messages=tuple(ChatMessage.model_validate({"role": r, "content": c}) for r, c in SAID),
        tokens=make_tokens(
            4,
            mask_T=np.array([0, 1, 0, 1], np.uint8),
            versions_T=np.array([-1, 4, -1, 6], np.int32),
        ),
        turns=(Turn(reward=None, digest="a"), Turn(reward=1.0, digest="b")),
    )
    completed = make_episode_ended(
        transcript=transcript,
        outcome=Completed(reward=1.0, metrics={"exact": 1.0, "reward/format": 0.25}),
        started_s=STARTED.timestamp(),
        ended_s=ENDED.timestamp(),
    )
    return [
        TrajectoryView(offset=3, fate="trained", step=7, advantage=0.5, trajectory=completed),
        TrajectoryView(offset=4, fate="failed", trajectory=make_failed_episode()),
    ]


@pytest.fixture
def parquet(views: list[TrajectoryView], tmp_path: Path) -> Path:
    with ParquetFile(path := tmp_path / "all.parquet") as file:
        file.write(views)
    return path


@pytest.fixture
def json_lines(views: list[TrajectoryView], tmp_path: Path) -> Path:
    with JsonLinesFile(path := tmp_path / "all.jsonl") as file:
        file.write(views)
    return path


def test_pandas_reads_the_same_from_both(parquet: Path, json_lines: Path) -> None:
    for frame in (pd.read_parquet(parquet), pd.read_json(json_lines, lines=True)):
        assert list(frame.columns) == NAMES
        first, second = frame.iloc[0], frame.iloc[1]
        assert (first.reward, first.advantage, first.step, first.fate) == (1.0, 0.5, 7, "trained")
        assert (first.prompt, first.response) == ("Guess.\n\n?", "5\n\n3")
        assert first.conversation.startswith("system: Guess.\n\nuser: ?\n\nassistant: 5")
        assert [message["role"] for message in first.messages] == [role for role, _ in SAID]
        assert dict(first.metrics) == {"exact": 1.0}
        assert dict(first.reward_parts) == {"format": 0.25}
        assert (first.policy_version_min, first.policy_version_max) == (4, 6)
        assert (first.n_turns, first.n_tokens, first.n_sampled_tokens) == (2, 4, 2)
        assert list(first.versions_T) == [-1, 4, -1, 6]
        assert (first.started_at, first.ended_at) == (STARTED, ENDED)
        assert first.duration_s == 1.75
        assert pd.isna(second.reward)
        assert (second.outcome, second.failure) == ("failed", "environment_error")
        assert "guess raised" in second.reason


def test_pyarrow_reads_the_same_from_both(parquet: Path, json_lines: Path) -> None:
    table = pq.read_table(parquet)
    assert table.schema.names == NAMES
    assert table.schema.field("started_at").type == pa.timestamp("us", tz="UTC")
    other = pa_json.read_json(json_lines)
    assert other.schema.names == NAMES
    plain = ("reward", "step", "fate", "prompt", "response", "turns", "ids_T", "spec")
    for name in plain:
        assert table[name].to_pylist() == other[name].to_pylist(), name
    assert other["started_at"].cast(pa.timestamp("us", tz="UTC"))[0].as_py() == STARTED
    assert table["metrics"].to_pylist()[0] == [("exact", 1.0)]
    assert other["metrics"].to_pylist()[0] == {"exact": 1.0}
