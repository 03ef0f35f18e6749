"""Rows of exports, read again: what is learned from is what was recorded, from both forms."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from tests.support.factories import (
    make_episode_ended,
    make_failed_episode,
    make_spec,
    make_tokens,
    make_transcript,
)

from warren.datasets.sources import lines
from warren_schemas.datasets.exported import exported, replayable
from warren_schemas.datasets.rows import DatasetKind, WrongLine, checked, kind_of
from warren_schemas.episode import Completed, EpisodeEnded, Failed, FailureKind, StopReason
from warren_schemas.episode_times import EpisodeTimes
from warren_schemas.exports.files import JsonLinesFile, ParquetFile
from warren_schemas.http import TrajectoryView
from warren_schemas.images import Image
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.transcript import Branch, ChatMessage, Tokens, Turn

PIXEL = Image.of(b"\x89PNG\r\n\x1a\n")


def tokens_of(n: int, seed: int, *, is_cut: bool = False) -> Tokens:
    chance = np.random.default_rng(seed)
    ids_T = chance.integers(0, 50_000, n, dtype=np.int32)
    mask_T = (np.arange(n) % 3 > 0).astype(np.uint8)
    sets = [np.array([token, 50_001], np.int32) if m else np.zeros(0, np.int32) for token, m in zip(ids_T, mask_T, strict=True)]  # fmt: skip
    return make_tokens(
        n,
        ids_T=ids_T,
        mask_T=mask_T,
        logprobs_T=np.where(mask_T, -chance.random(n), 0).astype(np.float32),
        versions_T=np.where(mask_T, chance.integers(0, 9, n), -1).astype(np.int32),
        sampling_mask=SamplingMask.of(sets) if is_cut else None,
    )


def said(*roles: str) -> tuple[ChatMessage, ...]:
    return tuple(
        ChatMessage.model_validate({"role": r.strip("*"), "content": r, "is_quoted": "*" in r})
        for r in roles
    )


def plain() -> EpisodeEnded:
    transcript = make_transcript(
        tokens=tokens_of(9, 1), tokenizer="d" * 64, task_number=4, category="hard",
        times=EpisodeTimes(sampling_s=0.25, sampling_gpu_s=0.125),
    )  # fmt: skip
    outcome = Completed(reward=0.1, metrics={"exact": 1.0, "reward/format": 0.3})
    return make_episode_ended(transcript=transcript, outcome=outcome, ended_s=1_700_000_000.25)


def branched() -> EpisodeEnded:
    """With sampling masks; the one that goes on is the first, and its last action got no answer."""
    aside = Branch(
        number=1, messages=said("user", "assistant*", "assistant"), n_rendered=3,
        tokens=tokens_of(7, 2, is_cut=True),
    )  # fmt: skip
    turns = (
        Turn(reward=None, digest="a"),
        Turn(reward=0.7, digest="b", is_cut=True, branch=1),
    )
    transcript = make_transcript(
        messages=said("system", "user", "assistant", "user", "assistant"),
        tokens=tokens_of(12, 3, is_cut=True),
        turns=turns,
        set_aside=(aside,),
        branch=0,
    )
    stop = StopReason.MAX_TOTAL_TOKENS
    return make_episode_ended(transcript=transcript, outcome=Completed(reward=-2.5, stop=stop))


def view_of(item: EpisodeEnded) -> TrajectoryView:
    return TrajectoryView(offset=130, fate="stale", group_size=8, trajectory=item)


def parquet(view: TrajectoryView, folder: Path) -> dict[str, Any]:
    """As it is uploaded."""
    with ParquetFile(path := folder / "all.parquet") as file:
        file.write([view])
    return orjson.loads(next(lines(path)))


def json_lines(view: TrajectoryView, folder: Path) -> dict[str, Any]:
    with JsonLinesFile(path := folder / "all.jsonl") as file:
        file.write([view])
    return orjson.loads(next(lines(path)))


Form = Callable[[TrajectoryView, Path], dict[str, Any]]
forms = pytest.mark.parametrize("form", [parquet, json_lines])


@forms
@pytest.mark.parametrize("make", [plain, branched, make_failed_episode])
def test_what_is_learned_from_is_what_was_recorded(
    form: Form, make: Callable[[], EpisodeEnded], tmp_path: Path
) -> None:
    item = make()
    read = exported(form(view_of(item), tmp_path))
    assert (read.offset, read.fate, read.group_size) == (130, "stale", 8)
    again = read.item
    assert (again.spec, again.outcome.status) == (item.spec, item.outcome.status)
    for name in ("run", "episode", "attempt"):
        assert getattr(again.envelope, name) == getattr(item.envelope, name)
    if isinstance(item.outcome, Completed):
        assert again.outcome == item.outcome
    assert (again.started_s, again.ended_s) == pytest.approx((item.started_s, item.ended_s))  # pyright: ignore[reportUnknownMemberType]
    theirs, ours = item.transcript, again.transcript
    for name in ("tokenizer", "task_number", "category", "times", "branch", "newest_version"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert [(t.reward, t.is_cut, t.branch) for t in ours.turns] == [
        (t.reward, t.is_cut, t.branch) for t in theirs.turns
    ]
    assert len(ours.branches) == len(theirs.branches)
    for one, other in zip(ours.branches, theirs.branches, strict=True):
        assert (one.number, one.messages) == (other.number, other.messages)
        assert ours.turns_of(one.number) == theirs.turns_of(other.number)
        assert_same(one.tokens, other.tokens)


def assert_same(ours: Tokens, theirs: Tokens) -> None:
    for name in ("ids_T", "mask_T", "logprobs_T", "versions_T"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes(), name
    masks = [each.sampling_mask for each in (ours, theirs)]
    assert [mask is None for mask in masks] in ([True, True], [False, False])
    if masks[0] is not None and masks[1] is not None:
        assert masks[0].sizes_N.tolist() == masks[1].sizes_N.tolist()
        assert masks[0].ids_S.tolist() == masks[1].ids_S.tolist()


@forms
def test_an_episode_with_images_has_failed(form: Form, tmp_path: Path) -> None:
    shown = (ChatMessage(role="user", content="?", images=(PIXEL,)), *said("assistant"))
    item = make_episode_ended(transcript=make_transcript(messages=shown))
    read = exported(form(view_of(item), tmp_path))
    assert isinstance(read.item.outcome, Failed)
    assert read.item.outcome.kind is FailureKind.IMAGES_UNSUPPORTED


def test_what_did_not_count_has_no_fate(tmp_path: Path) -> None:
    view = view_of(plain()).model_copy(update={"fate": "superseded", "group_size": None})
    assert exported(json_lines(view, tmp_path)).fate is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ids_T": None}, "ids_T"),
        ({"spec": "{}"}, "group"),
        ({"reward": None}, "reward: an episode that completed has one"),
        ({"mask_T": [1]}, "arrays differ in length"),
        ({"branch_n_tokens": [4]}, "branch_n_tokens: they add up to 4, and ids_T has 9"),
        ({"branch_n_tokens": [9, *[0] * 5000]}, "branch_n_tokens"),
        ({"branch": 3}, "branch: there are 1, counted from 0"),
        ({"fate": "good"}, "fate"),
        ({"group_size": None}, "group_size is missing: the file is of an older Warren"),
        ({"group_size": 1}, "member 3 of a group of 1"),
        ({"logprobs_T": [1e300] * 9}, "logprobs_T"),
        ({"ids_T": [2**40] * 9}, "ids_T"),
        ({"started_at": "yesterday"}, "started_at"),
    ],
)
def test_a_row_that_is_none_says_why(
    changes: dict[str, object], reason: str, tmp_path: Path
) -> None:
    item = plain().model_copy(update={"spec": make_spec(member=3)})
    row = json_lines(view_of(item), tmp_path)
    line = orjson.dumps(row)
    assert kind_of(line) is DatasetKind.TRAJECTORIES
    assert checked(line, 1, DatasetKind.TRAJECTORIES) == row
    with pytest.raises(WrongLine) as wrong:
        checked(orjson.dumps(row | changes), 7, DatasetKind.TRAJECTORIES)
    assert str(wrong.value).startswith("line 7: ") and reason in str(wrong.value)


@pytest.mark.parametrize(
    ("spec", "group_size", "reason"),
    [
        ({}, 10**9, "group_size: a group has at most 1024 episodes, not 1000000000"),
        ({"group": "a@b+c"}, 8, "the id of a group is 1 to 64 letters, digits, _ and -"),
        ({"group": "x" * 300_000}, 8, "and this one is 'xxx"),
        ({"purpose": "demonstrate", "member": 1}, 8, "member 1 of a group of 1"),
    ],
)
def test_a_group_that_no_run_has_is_refused(
    spec: dict[str, Any], group_size: int, reason: str, tmp_path: Path
) -> None:
    row = json_lines(view_of(plain()), tmp_path)
    changed = row | {
        "spec": orjson.dumps(orjson.loads(row["spec"]) | spec).decode(),
        "group_size": group_size,
    }
    with pytest.raises(WrongLine) as wrong:
        checked(orjson.dumps(changed), 7, DatasetKind.TRAJECTORIES)
    assert reason in str(wrong.value) and len(str(wrong.value)) < 300


def test_what_a_row_takes_is_told_by_all_that_it_holds(tmp_path: Path) -> None:
    row = json_lines(view_of(plain()), tmp_path)
    size = replayable(row).size_bytes
    assert replayable(row | {"metrics": {"x" * 1000: 1.0}}).size_bytes > size + 900
    turns = [{"reward": None}] * 1000
    assert replayable(row | {"turns": turns}).size_bytes > size + 500_000


def test_an_evaluation_may_have_more_samples_than_a_group_has_members(tmp_path: Path) -> None:
    item = plain().model_copy(update={"spec": make_spec(purpose="evaluate", member=4000)})
    view = view_of(item).model_copy(update={"group_size": 5000})
    assert checked(orjson.dumps(json_lines(view, tmp_path)), 1, DatasetKind.TRAJECTORIES)


def test_a_trajectory_may_be_longer_than_a_task(tmp_path: Path) -> None:
    long = plain().model_copy(
        update={
            "transcript": make_transcript(
                messages=(ChatMessage(role="user", content="x" * 300_000), *said("assistant"))
            )
        }
    )
    line = orjson.dumps(json_lines(view_of(long), tmp_path))
    assert checked(line, 1, DatasetKind.TRAJECTORIES)
    with pytest.raises(WrongLine, match="at most 262144"):
        checked(line, 1, DatasetKind.TASKS)
