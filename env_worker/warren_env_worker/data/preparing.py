"""Files of questions brought into one layout, which `math` reads: JSON lines, one question each.

    {"uid": …, "data_source": …, "category": …, "problem" or "prompt": …, "ground_truth": …}

`uid` is a digest of question and answer, so that a question keeps it wherever it comes from. With a
holdout, the digest decides which questions are held out: the same ones, whatever the order of the
rows, and however often the file is prepared.

Invariant: a file is there whole or not at all.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from warren.environment import ConfigError
from warren_env_worker.environments.questions import Question, read_questions
from warren_env_worker.permissions.permissions import TRUSTED

_UID_CHARS = 16


def prepare(sources: Sequence[Path], folder: Path, *, holdout: float) -> dict[str, int]:
    """Write `train.jsonl`, and `test.jsonl` if something is held out; how many questions each has.

    `holdout` is the share of the questions that goes to the test split, at least one if it is not 0.
    Questions that several files hold come once. Raises `ConfigError` for a file that can't be read.
    """
    questions = {
        uid(question): question for path in sources for question in read_questions(path, TRUSTED)
    }
    in_order = sorted(questions)  # by digest: as good as shuffled, and always the same
    n_test = max(1, round(holdout * len(in_order))) if holdout else 0
    if n_test >= len(in_order):
        raise ConfigError(f"{len(in_order)} questions are too few to hold {n_test} of them out")
    parts = {"train": in_order[n_test:], "test": in_order[:n_test]}
    folder.mkdir(parents=True, exist_ok=True)
    for split, uids in parts.items():
        if uids:
            _write(folder / f"{split}.jsonl", (_row(u, questions[u]) for u in uids))
    return {split: len(uids) for split, uids in parts.items() if uids}


def uid(question: Question) -> str:
    said = [(message.role, message.content) for message in question.prompt]
    text = json.dumps([said, question.gold])
    return hashlib.sha256(text.encode()).hexdigest()[:_UID_CHARS]


def _row(key: str, question: Question) -> dict[str, object]:
    shown: dict[str, object] = {"problem": question.prompt[-1].content}
    if question.is_chat:
        messages = [{"role": m.role, "content": m.content} for m in question.prompt]
        shown = {"prompt": messages}
    source = {"data_source": question.data_source} if question.data_source else {}
    kind = {"category": question.category} if question.category else {}
    return {"uid": key, **source, **kind, **shown, "ground_truth": question.gold}


def _write(path: Path, rows: Iterable[dict[str, object]]) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
