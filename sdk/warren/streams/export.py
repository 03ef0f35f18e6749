"""Trajectories into a file: JSON lines, parquet where pyarrow is installed, or OpenEnv's TrainingTraces.

Invariant: the file appears whole, under its name, once everything was written; a reader that was
interrupted leaves only `<name>.part` behind.
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

from warren.errors import ConfigurationError
from warren.version import install_extra
from warren_schemas.exports.files import JsonLinesFile, ParquetFile
from warren_schemas.http import TrajectoryView
from warren_schemas.traces.file import TRACES_ENDING, TracesFile

ROWS_AT_ONCE = 256


class _File(AbstractContextManager["_File"], Protocol):
    def write(self, views: Sequence[TrajectoryView]) -> int: ...


class Written(NamedTuple):
    n_rows: int
    n_left_out: int
    """Trajectories that this form has no place for."""


async def export(trajectories: AsyncIterable[TrajectoryView], path: Path) -> Written:
    """Write all of them. The ending, `.jsonl`, `.parquet` or `.traces.jsonl`, says in which form.

    Raises `ConfigurationError` for another ending, or where pyarrow is missing; `OSError`.
    """
    open_file = writer_for(path)
    part = path.with_name(f"{path.name}.part")
    n_read = n_rows = 0
    file = await asyncio.to_thread(open_file, part)
    with file:
        batch: list[TrajectoryView] = []
        async for view in trajectories:
            batch.append(view)
            if len(batch) == ROWS_AT_ONCE:
                n_rows += await asyncio.to_thread(file.write, batch)
                n_read, batch = n_read + len(batch), []
        n_rows += await asyncio.to_thread(file.write, batch)
    await asyncio.to_thread(part.replace, path)
    return Written(n_rows, n_read + len(batch) - n_rows)


def writer_for(path: Path) -> "Callable[[Path], _File]":
    """What writes a file with this ending. Raises `ConfigurationError`."""
    if path.name.endswith(TRACES_ENDING):
        return TracesFile
    if path.suffix == ".jsonl":
        return JsonLinesFile
    if path.suffix != ".parquet":
        raise ConfigurationError(
            f"{path} has no ending that says how to write it",
            hint="Give a file that ends in .jsonl, .parquet or .traces.jsonl.",
        )
    if find_spec("pyarrow") is None:
        raise ConfigurationError(
            f"Writing {path.name} needs the Python package pyarrow, which is not installed",
            hint=f"Install it with: {install_extra('parquet')}; or export to a .jsonl file.",
        )
    return ParquetFile
