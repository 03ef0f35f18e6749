"""Files of rows on this machine: JSON lines or parquet, as the lines that are uploaded. All calls block.

OpenEnv's TrainingTraces become rows of an export here, each line one: the gateway knows these alone.

Invariant: reading a source again gives the same lines, so that an upload can be resumed.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from warren.errors import ConfigurationError
from warren.version import install_extra
from warren_schemas.config.numbers import NAME_PATTERN
from warren_schemas.datasets.rows import DatasetKind, WrongLine, checked, kind_of
from warren_schemas.http import UploadedFile
from warren_schemas.http.datasets import MAX_SPLITS
from warren_schemas.traces.reading import MAX_TRACE_BYTES, is_trace, row_of_trace
from warren_schemas.traces.shape import NotATrace

SUFFIXES = (".jsonl", ".parquet")
_BATCH_ROWS = 256


class Source(NamedTuple):
    path: Path
    kind: DatasetKind
    file: UploadedFile


def sources(path: Path, kind: DatasetKind | None) -> list[Source]:
    """A file as the split `train`, or each file of a folder as the split of its name; every line is checked.

    Raises `ConfigurationError`, with the number of the first wrong line.
    """
    found = _splits(path)
    kind = kind or _kind_of_first(next(iter(found.values())))
    return [Source(file, kind, _checked(file, split, kind)) for split, file in found.items()]


def lines(path: Path, kind: DatasetKind = DatasetKind.TRAJECTORIES) -> Iterator[bytes]:
    """Of the file, without their ends, as they are uploaded as this kind. Raises `ConfigurationError`."""
    try:
        if path.suffix == ".parquet":
            yield from _parquet_lines(path)
        elif kind is DatasetKind.TRAJECTORIES:
            yield from _rows(_json_lines(path), path)
        else:
            yield from _json_lines(path)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror or error}") from error


def _rows(found: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Traces, if the first line is one, as rows of an export."""
    first = next(found, None)
    if first is None:
        return
    if not is_trace(first):
        yield from chain([first], found)
        return
    for number, line in enumerate(chain([first], found), 1):
        try:
            yield orjson.dumps(row_of_trace(line, number))
        except NotATrace as error:
            raise _wrong(
                path, WrongLine(number, f"{error} (the file is of TrainingTraces)")
            ) from error


def _splits(path: Path) -> Mapping[str, Path]:
    if not path.is_dir():
        _require_suffix(path)
        return {"train": path}
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    found = {file.stem: file for file in files}
    if not found:
        raise ConfigurationError(f"{path} has no file that ends in .jsonl or .parquet")
    if len(found) < len(files):
        raise ConfigurationError(f"{path} has two files of one name, with different endings")
    if len(found) > MAX_SPLITS:
        raise ConfigurationError(
            f"{path} has {len(found)} files, and at most {MAX_SPLITS} can be splits"
        )
    for split, file in found.items():
        if not re.fullmatch(NAME_PATTERN, split):
            raise ConfigurationError(
                f"{file} would be a split of a name that is none",
                hint="Letters, digits, `.`, `-` and `_`.",
            )
    return found


def _require_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise ConfigurationError(f"{path}: the name must end in .jsonl or .parquet")
    if not path.exists():
        raise ConfigurationError(f"There is no file {path}")


def _kind_of_first(path: Path) -> DatasetKind:
    first = next(lines(path), None)
    if first is None:
        raise ConfigurationError(f"{path} has no rows")
    try:
        return kind_of(first)
    except WrongLine as error:
        raise _wrong(path, error) from error


def _checked(path: Path, split: str, kind: DatasetKind) -> UploadedFile:
    digest, n_bytes = hashlib.sha256(), 0
    for number, line in enumerate(lines(path, kind), 1):
        try:
            checked(line, number, kind)
        except WrongLine as error:
            raise _wrong(path, error) from error
        digest.update(line + b"\n")
        n_bytes += len(line) + 1
    if not n_bytes:
        raise ConfigurationError(f"{path} has no rows")
    return UploadedFile(split=split, sha256=digest.hexdigest(), size_bytes=n_bytes)


def _wrong(path: Path, error: WrongLine) -> ConfigurationError:
    what = "row" if path.suffix == ".parquet" else "line"
    return ConfigurationError(
        f"{path}, {what} {error.number}: {error.reason}", hint="Correct it; nothing was uploaded."
    )


def _json_lines(path: Path) -> Iterator[bytes]:
    """No longer line is read than a trace may be, and one byte more, which tells that it is too long."""
    with path.open("rb") as file:
        while line := file.readline(MAX_TRACE_BYTES + 2):
            yield line.removesuffix(b"\n")


def _parquet_lines(path: Path) -> Iterator[bytes]:
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "Reading parquet takes pyarrow", hint=f"Install it with: {install_extra('parquet')}"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield _line(row, number)
    except ValueError as error:  # a broken parquet file is a ValueError of pyarrow's
        if isinstance(error, ConfigurationError | WrongLine):
            raise
        raise ConfigurationError(
            f"{path} can't be read: it is not a complete parquet file"
        ) from error


def _line(row: dict[str, Any], number: int) -> bytes:
    """What parquet has and JSON has not, such as times, becomes text; bytes can't."""
    try:
        return orjson.dumps(row, default=_text)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise ConfigurationError(f"row {number} can't be JSON: {error}") from error


def _text(value: object) -> str:
    if isinstance(value, bytes):
        raise TypeError("a column has bytes")
    return str(value)
