"""Trajectories into a file: JSON lines, or parquet where pyarrow is installed.

Invariant: the file appears whole, under its name, once everything was written; a reader that was
interrupted leaves only `<name>.part` behind.
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from warren.errors import ConfigurationError
from warren_schemas.exports.files import JsonLinesFile, ParquetFile
from warren_schemas.http import TrajectoryView

ROWS_AT_ONCE = 256


class _File(AbstractContextManager["_File"], Protocol):
    def write(self, views: Sequence[TrajectoryView]) -> None: ...


async def export(trajectories: AsyncIterable[TrajectoryView], path: Path) -> int:
    """Write all of them; their number. The ending, `.jsonl` or `.parquet`, says in which form.

    Raises `ConfigurationError` for another ending, or where pyarrow is missing; `OSError`.
    """
    open_file = writer_for(path)
    part = path.with_name(f"{path.name}.part")
    n_written = 0
    file = await asyncio.to_thread(open_file, part)
    with file:
        batch: list[TrajectoryView] = []
        async for view in trajectories:
            batch.append(view)
            if len(batch) == ROWS_AT_ONCE:
                await asyncio.to_thread(file.write, batch)
                n_written, batch = n_written + len(batch), []
        await asyncio.to_thread(file.write, batch)
    await asyncio.to_thread(part.replace, path)
    return n_written + len(batch)


def writer_for(path: Path) -> "Callable[[Path], _File]":
    """What writes a file with this ending. Raises `ConfigurationError`."""
    if path.suffix == ".jsonl":
        return JsonLinesFile
    if path.suffix != ".parquet":
        raise ConfigurationError(
            f"{path} has no ending that says how to write it",
            hint="Give a file that ends in .jsonl or .parquet.",
        )
    if find_spec("pyarrow") is None:
        raise ConfigurationError(
            f"Writing {path.name} needs the Python package pyarrow, which is not installed",
            hint="Install it with: pip install 'warren-rl[parquet]'; or export to a .jsonl file.",
        )
    return ParquetFile
