"""What `warren replay` makes of its arguments, and how a trajectory reads."""

import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.support.factories import (
    make_episode_ended,
    make_failed_episode,
    make_tokens,
    make_transcript,
)

import warren
from warren.cli.commands.runs.replay import replay
from warren.display.trajectory import look
from warren.streams import export
from warren.streams.recording import Beginning, parse_beginning, recorded_source
from warren_schemas.http import TrajectoryView
from warren_schemas.ids import RunId
from warren_schemas.transcript import ChatMessage, Turn


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("1200", 1200),
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("2h", timedelta(hours=2)),
        ("3d", timedelta(days=3)),
        ("2026-03-01T12:00", datetime(2026, 3, 1, 12)),
    ],
)
def test_a_beginning_is_an_offset_a_time_or_so_long_ago(text: str, beginning: Beginning) -> None:
    assert parse_beginning(text) == beginning


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "12x", "h", "9999999999d"])
def test_what_is_no_beginning_is_told(text: str) -> None:
    with pytest.raises(warren.ConfigurationError, match="no place in a recording"):
        parse_beginning(text)


def test_what_no_clock_can_tell_is_told_or_is_the_beginning() -> None:
    run = RunId("run_1")
    assert recorded_source(run, timedelta(days=999_999)).from_s == 0.0
    with pytest.raises(warren.ConfigurationError, match="is out of range"):
        recorded_source(run, datetime.min)
    for offset in (-1, 2**63):
        with pytest.raises(warren.ConfigurationError, match="an offset is at least 0"):
            recorded_source(run, offset)


def test_replay_does_one_thing(tmp_path: Path) -> None:
    with pytest.raises(warren.ConfigurationError, match="one of --into, --to and --look"):
        replay("last")
    with pytest.raises(warren.ConfigurationError, match="one of --into, --to and --look"):
        replay("last", to=tmp_path / "a.jsonl", look=True)
    with pytest.raises(warren.ConfigurationError, match="--set needs --into"):
        replay("last", to=tmp_path / "a.jsonl", set_=("seed=1",))
    with pytest.raises(warren.ConfigurationError, match="--epochs needs --into"):
        replay("last", look=True, epochs=2)
    with pytest.raises(warren.ConfigurationError, match="--shuffle-window needs --into"):
        replay("last", look=True, shuffle_window=2)
    with pytest.raises(warren.ConfigurationError, match="--detach needs --into"):
        replay("last", look=True, detach=True)
    with pytest.raises(warren.ConfigurationError, match="--limit goes with --to and --look"):
        replay("last", into=tmp_path / "a.yaml", limit=10)
    with pytest.raises(warren.ConfigurationError, match="no ending"):
        replay("last", to=tmp_path / "a.csv")


def test_parquet_without_pyarrow_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(warren.ConfigurationError, match="needs the Python package pyarrow"):
        export.writer_for(tmp_path / "a.parquet")
    assert export.writer_for(tmp_path / "a.jsonl")


def test_each_turn_has_its_own_tokens() -> None:
    mask_T = np.array([0, 1, 1, 0, 0, 1], np.uint8)
    versions_T = np.array([-1, 4, 5, -1, -1, 6], np.int32)
    tokens = make_tokens(6, mask_T=mask_T, versions_T=versions_T)
    assert tokens.sampled_spans == [slice(1, 3), slice(5, 6)]
    said = [("user", "?"), ("assistant", "5"), ("user", "higher"), ("assistant", "7")]
    transcript = make_transcript(
        messages=tuple(ChatMessage.model_validate({"role": r, "content": c}) for r, c in said),
        tokens=tokens,
        turns=(Turn(reward=None, digest="a"), Turn(reward=1.0, digest="b")),
    )
    view = TrajectoryView(offset=3, trajectory=make_episode_ended(transcript=transcript))
    lines = [text for text, _ in look(view)]
    assert "  [turn 1: no reward, 2 tokens by versions 4 to 5]" in lines
    assert "  [turn 2: reward 1.000, 1 tokens by version 6]" in lines
    assert lines[1].endswith("not consumed yet")


def test_a_failure_shows_its_reason() -> None:
    view = TrajectoryView(offset=3, fate="failed", trajectory=make_failed_episode())
    lines = [text for text, _ in look(view)]
    assert lines[1] == "failed (environment_error): guess raised ValueError in step 1"


def test_what_is_set_for_a_replay_has_an_effect(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("{model: {base: tiny}, environments: [{name: guess}], sampling: {top_p: 0.9}}")
    for override in ("sampling.top_p=0.8", "sampling={top_k: 5}", "algorithm.max_staleness=7"):
        with pytest.raises(warren.ConfigurationError, match="has no effect in a replay"):
            replay("last", into=path, set_=(override,))
