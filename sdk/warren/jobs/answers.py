"""What an inference answered, as a file with a line for each row and sample, in the order of the data.

Invariant: the file appears whole, under its name, once every answer was read; an interrupted reader leaves only
`<name>.part` behind. Answers are kept on the disk while they come, and only their places in memory.
"""

import asyncio
from collections.abc import AsyncIterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from warren.streams.export import writer_for
from warren_schemas.episode import Completed, EpisodeEnded, Failed
from warren_schemas.http import TrajectoryView

_AT_ONCE = 1024


class _Place(NamedTuple):
    row: int
    sample: int
    offset: int
    size: int


async def write_answers(trajectories: AsyncIterable[TrajectoryView], path: Path) -> tuple[int, int]:
    """How many lines there are, and how many of them tell of a failure.

    Raises `ConfigurationError` for an ending other than `.jsonl` and `.parquet`, `OSError`.
    """
    writer_for(path)
    part = path.with_name(f"{path.name}.part")
    places: list[_Place] = []
    n_failed = 0
    file = await asyncio.to_thread(part.open, "w+b")
    with file:
        async for view in trajectories:
            ended = view.trajectory
            if ended.spec.task.row is None:
                continue
            line = orjson.dumps(answer(ended))
            n_failed += isinstance(ended.outcome, Failed)
            row = ended.spec.task.row.number
            places.append(_Place(row, ended.spec.member, file.tell(), len(line)))
            await asyncio.to_thread(file.write, line)
        await asyncio.to_thread(_in_order, file, sorted(places), path)
    await asyncio.to_thread(part.unlink)
    return len(places), n_failed


def answer(ended: EpisodeEnded) -> dict[str, object]:
    """A line of the file."""
    row, outcome, said = ended.spec.task.row, ended.outcome, ended.transcript.actions
    is_done = isinstance(outcome, Completed)
    return {
        "row": None if row is None else row.number,
        "sample": ended.spec.member,
        "input": None if row is None else row.values,
        "answer": said[-1] if is_done and said else None,
        "is_cut": is_done and any(turn.is_cut for turn in ended.transcript.turns),
        "error": None if is_done else outcome.reason,
    }


def _in_order(file: BinaryIO, places: list[_Place], path: Path) -> None:
    whole = path.with_name(f".{path.name}.whole")
    lines = _lines(file, places)
    if path.suffix == ".parquet":
        _write_parquet(lines, whole)
    else:
        with whole.open("wb") as target:
            target.writelines(line + b"\n" for line in lines)
    whole.replace(path)


def _lines(file: BinaryIO, places: list[_Place]) -> Iterator[bytes]:
    for place in places:
        file.seek(place.offset)
        yield file.read(place.size)


def _write_parquet(lines: Iterator[bytes], path: Path) -> None:
    """`input` is JSON there: rows may differ in their columns."""
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    text = arrow.string()
    fields = [
        ("row", arrow.int64()), ("sample", arrow.int32()), ("input", text), ("answer", text),
        ("is_cut", arrow.bool_()), ("error", text),
    ]  # fmt: skip
    schema = arrow.schema(fields)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        batch: list[dict[str, Any]] = []
        for line in lines:
            found: dict[str, Any] = orjson.loads(line)
            batch.append(found | {"input": orjson.dumps(found["input"]).decode()})
            if len(batch) == _AT_ONCE:
                writer.write_table(arrow.Table.from_pylist(batch, schema=schema))
                batch.clear()
        writer.write_table(arrow.Table.from_pylist(batch, schema=schema))
