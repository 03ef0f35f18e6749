"""What an inference answered, as a file with a line for each row and sample, in the order of the data.

Invariants: the file appears whole, under its name, once every answer was read; an interrupted reader leaves only
`<name>.part` behind. Answers are kept on the disk while they come, and only their places in memory. What was asked
and is not in the recording has a line as well, which says why.
"""

import asyncio
from collections.abc import AsyncIterable, Iterator
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from warren.run_configs.configs import PROMPTS
from warren.streams.export import writer_for
from warren_schemas.episode import Completed, EpisodeEnded, Failed
from warren_schemas.events import RunState
from warren_schemas.http import RunView, TrajectoryView

_AT_ONCE = 1024


class Expected(NamedTuple):
    """What the run was to answer, and why something of it may be missing."""

    n_rows: int
    n_samples: int
    reason: str


class Written(NamedTuple):
    n_lines: int
    n_failed: int
    """Lines that tell of a failure."""
    n_missing: int
    """Lines for what the recording does not have."""


class _Place(NamedTuple):
    row: int
    sample: int
    offset: int
    size: int


async def write_answers(
    trajectories: AsyncIterable[TrajectoryView], path: Path, expected: Expected | None = None
) -> Written:
    """Without `expected`, whatever was recorded.

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
        missing = (
            [] if expected is None else await asyncio.to_thread(_missing, file, places, expected)
        )
        await asyncio.to_thread(_in_order, file, sorted([*places, *missing]), path)
    await asyncio.to_thread(part.unlink)
    return Written(len(places) + len(missing), n_failed, len(missing))


def expected_of(run: RunView) -> Expected | None:
    """Of a run that answers prompts, in the order of the data; None for any other."""
    config = run.config
    if config is None or config.evaluation is None or len(config.environments) != 1:
        return None
    if config.environments[0].name != PROMPTS:
        return None
    if run.state is RunState.COMPLETED:
        reason = "its answer is not kept any more (`retention` of the run's config)"
    else:
        reason = f"the run is {run.state}{f': {run.error}' if run.error else ''}"
    n_samples = config.evaluation.samples
    return Expected(config.evaluation.episodes // n_samples, n_samples, reason)


def _missing(file: BinaryIO, places: list[_Place], expected: Expected) -> list[_Place]:
    """Lines at the end of the file for what has none; as many as there are fewer than were asked for."""
    there = {(place.row, place.sample) for place in places}
    n = expected.n_rows * expected.n_samples - len(places)
    asked = product(range(expected.n_rows), range(expected.n_samples))
    found: list[_Place] = []
    for row, sample in islice((each for each in asked if each not in there), max(0, n)):
        nothing = {"row": row, "sample": sample, "input": None, "answer": None, "is_cut": False}
        line = orjson.dumps({**nothing, "error": expected.reason})
        found.append(_Place(row, sample, file.tell(), len(line)))
        file.write(line)
    return found


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
