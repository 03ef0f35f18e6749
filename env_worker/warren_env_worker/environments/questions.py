"""Mathematical questions with their answers, from parquet and JSON lines in the layouts in use.

| layout | question | right answer |
|---|---|---|
| GSM8K | `question` | `answer`, after `####` |
| MATH | `problem` | the last box in `solution` |
| DeepScaleR, MATH-500 | `problem` | `answer` |
| verl (GSM8K, MATH, DAPO-Math) | `prompt`, a list of messages | `reward_model.ground_truth` |
| OpenTinker | `prompt`, a list of messages | `ground_truth` |
| open-r1's DAPO | `prompt`, a text | `solution` |

Precedence matters: a verl row may hold a worked solution besides, in `extra_info.answer`, which is
never looked at. The category is what `category`, `subject`, `type` (the subject in MATH) or `data_source` says,
the first that is there. Rows that say the same come once: DAPO's files repeat theirs a hundred times.
"""

import io
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from warren.environment import ChatMessage, ConfigError
from warren.host_services.verdict import AnswerForm
from warren_env_worker.permissions.permissions import Permissions
from warren_env_worker.verifier.extraction import extract, last_boxed
from warren_schemas.datasets.row_ids import ID_FIELDS, row_id
from warren_schemas.transcript import MAX_CATEGORY_CHARS

COLUMNS = (
    "prompt", "problem", "question", "reward_model", "ground_truth", "answer", "solution",
    "images", "data_source", "category", "subject", "type", *ID_FIELDS,
)  # fmt: skip
_BATCH_ROWS = 1000

log = logging.getLogger(__name__)


class Question(NamedTuple):
    prompt: tuple[ChatMessage, ...]
    gold: str | None
    """The right answer: never shown. None only where whoever reads does without."""
    data_source: str
    category: str | None
    is_chat: bool
    """The file gives whole messages, with their own instructions."""
    row: int
    """Where it stands in the file, counted from 1."""
    id: str | None
    """What the file calls it."""


def read_questions(
    path: Path, permissions: Permissions, *, needs_gold: bool = True
) -> list[Question]:
    """Raises `ConfigError`, naming the row, for a file that may not be read, is missing or has another
    layout; of what stands in it, nothing is told."""
    seen: dict[tuple[object, str | None], Question] = {}
    n_rows = 0
    for n_rows, row in enumerate(_rows(path, permissions), 1):
        try:
            found = question(row, n_rows, needs_gold=needs_gold)
        except ConfigError as error:
            raise ConfigError(f"{path}, row {n_rows}: {error}") from error
        seen.setdefault((found.prompt, found.gold), found)
    if n_rows > len(seen):
        log.warning("%s: %d of %d rows repeat others", path, n_rows - len(seen), n_rows)
    return list(seen.values())


def _rows(path: Path, permissions: Permissions) -> Iterator[Mapping[str, object]]:
    readers = {".parquet": _parquet_rows, ".jsonl": _json_rows, ".json": _json_rows}
    reader = readers.get(path.suffix)
    if reader is None:
        raise ConfigError(f"{path}: the name must end in .parquet, .jsonl or .json")
    with permissions.open_file(str(path)) as file:
        try:
            yield from reader(file)
        except (OSError, ValueError) as error:  # a broken parquet file is a ValueError of pyarrow's
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"{path} can't be read: it is not a complete {path.suffix} file"
            ) from error


def _parquet_rows(source: BinaryIO) -> Iterator[Mapping[str, object]]:
    parquet: Any = import_module("pyarrow.parquet")  # untyped, and heavy: only who needs it
    with parquet.ParquetFile(source) as file:
        there = [name for name in COLUMNS if name in file.schema_arrow.names]
        for batch in file.iter_batches(_BATCH_ROWS, columns=there):
            yield from batch.to_pylist()


def _json_rows(source: BinaryIO) -> Iterator[Mapping[str, object]]:
    """A list, or one object in each line."""
    with io.TextIOWrapper(source, encoding="utf-8") as file:
        is_list = file.read(1) == "["
        file.seek(0)
        rows: Iterable[object] = (
            json.load(file) if is_list else map(json.loads, filter(str.strip, file))
        )
        for row in rows:
            if not isinstance(row, dict):
                raise ConfigError(f"a row must be an object, not {type(row).__name__}")
            yield cast("dict[str, object]", row)


def question(row: Mapping[str, object], number: int, *, needs_gold: bool = True) -> Question:
    """Raises `ConfigError` for a row of another layout."""
    if row.get("images"):
        raise ConfigError("it has images, which this environment can't show")
    shown = next((row[name] for name in ("prompt", "problem", "question") if row.get(name)), None)
    if shown is None:
        raise ConfigError("it lacks prompt, problem and question")
    return Question(
        prompt=_prompt(shown),
        gold=_gold(row) if needs_gold or _has_gold(row) else None,
        data_source=str(row.get("data_source") or ""),
        category=_category(row),
        is_chat=not isinstance(shown, str),
        row=number,
        id=row_id(row),
    )


def _category(row: Mapping[str, object]) -> str | None:
    given = (row.get(name) for name in ("category", "subject", "type", "data_source"))
    found = next((value for value in given if isinstance(value, str) and value), None)
    return found and found[:MAX_CATEGORY_CHARS]


def _prompt(shown: object) -> tuple[ChatMessage, ...]:
    if isinstance(shown, str):
        return (ChatMessage(role="user", content=shown),)
    if not isinstance(shown, Sequence):
        raise ConfigError("prompt must be a text or a list of messages")
    messages = tuple(_message(each) for each in cast("Sequence[object]", shown))
    if not messages or messages[-1].role != "user":
        raise ConfigError("prompt must end with a message of the role user")
    return messages


def _message(each: object) -> ChatMessage:
    role, content = _field(each, "role"), _field(each, "content")
    if role not in ("system", "user") or not isinstance(content, str):
        raise ConfigError("a message of prompt must have the role system or user, and a text")
    return ChatMessage(role=role, content=content)


def _has_gold(row: Mapping[str, object]) -> bool:
    given = (row.get(name) for name in ("reward_model", "ground_truth", "answer", "solution"))
    return any(value is not None for value in given)


def _gold(row: Mapping[str, object]) -> str:
    for found in (_field(row.get("reward_model"), "ground_truth"), row.get("ground_truth")):
        if found is not None:
            return _text(found)
    answer, solution = row.get("answer"), row.get("solution")
    if answer is not None:
        text = _text(answer)
        return extract(text, AnswerForm.HASHES) or last_boxed(text) or text
    if solution is not None:
        text = _text(solution)
        gold = last_boxed(text) or (text if "\n" not in text else None)
        if gold:
            return gold
        raise ConfigError("its solution has no box with an answer")
    raise ConfigError("it lacks reward_model.ground_truth, ground_truth, answer and solution")


def _field(of: object, name: str) -> object:
    return cast("Mapping[str, object]", of).get(name) if isinstance(of, Mapping) else None


def _text(value: object) -> str:
    """An answer as text: itself, a number, or the only one of a list."""
    if isinstance(value, list):
        listed = cast("list[object]", value)
        value = listed[0] if len(listed) == 1 else None
    if isinstance(value, str | int | float) and str(value).strip():
        return str(value).strip()
    raise ConfigError("its answer must be a text or a number, and one alone")
