"""`warren data prepare`: every layout in, one layout out. Parity row 47."""

import json
from pathlib import Path

import pytest
from tests.support.question_files import CHAT, LAYOUTS, write_rows

from warren.environment import ConfigError
from warren_env_worker.data.preparing import prepare
from warren_env_worker.environments.questions import read_questions
from warren_env_worker.permissions.permissions import TRUSTED


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_parity_row_47_every_layout_becomes_one(layout: str, suffix: str, tmp_path: Path) -> None:
    source = write_rows(tmp_path / f"in{suffix}", [LAYOUTS[layout]])
    assert prepare([source], tmp_path / "out", holdout=0.0) == {"train": 1}
    (line,) = (tmp_path / "out" / "train.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert row["ground_truth"] == "42"
    assert row.get("prompt", row.get("problem")) in (CHAT, "6*7?")
    (before,), (after,) = (
        read_questions(source, TRUSTED),
        read_questions(tmp_path / "out/train.jsonl", TRUSTED),
    )
    assert (before.prompt, before.gold, before.is_chat) == (after.prompt, after.gold, after.is_chat)


def test_the_holdout_does_not_depend_on_the_order_or_on_repetitions(tmp_path: Path) -> None:
    rows = [{"question": f"{n}+1?", "answer": f"#### {n + 1}"} for n in range(100)]
    first = write_rows(tmp_path / "a.jsonl", rows)
    second = write_rows(tmp_path / "b.parquet", [*rows[::-1], *rows])
    assert prepare([first], tmp_path / "1", holdout=0.1) == {"train": 90, "test": 10}
    assert prepare([second, first], tmp_path / "2", holdout=0.1) == {"train": 90, "test": 10}
    for split in ("train", "test"):
        texts = {(tmp_path / n / f"{split}.jsonl").read_text() for n in ("1", "2")}
        assert len(texts) == 1


def test_what_can_not_be_prepared_is_told(tmp_path: Path) -> None:
    one = write_rows(tmp_path / "one.jsonl", [LAYOUTS["gsm8k"]])
    with pytest.raises(ConfigError, match="1 questions are too few"):
        prepare([one], tmp_path / "out", holdout=0.5)
    pictures = write_rows(
        tmp_path / "geo.jsonl", [{"problem": "?", "answer": "1", "images": ["x"]}]
    )
    with pytest.raises(ConfigError, match=r"geo\.jsonl, row 1: it has images"):
        prepare([pictures], tmp_path / "out", holdout=0.0)
    assert not (tmp_path / "out").exists()
