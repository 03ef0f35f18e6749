"""The archive's files of one run, below any fsspec URL.

A part holds what stands in `part_messages` messages of the stream, from a multiple of that number on. So
its name and its content are the same whoever writes it, and however often, unless the stream has lost some
of it meanwhile: then the part that was there first stays.

Invariants
- A file that is there under its name is whole. What two gateways write at once never meets before it is.
- A part that lacks messages has beside it, and earlier than itself, the file `missing-` with its number,
  which says which; so whoever goes on knows of them.
- After all parts comes `complete`, or, where there is any such file, `incomplete` with what they say.
"""

import secrets
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from warren_gateway.archive.gaps import as_ranges
from warren_schemas.config import ArchiveFormat
from warren_schemas.exports.files import ParquetFile, json_lines
from warren_schemas.http import TrajectoryView

PART_MESSAGES = 64
"""The same for all gateways, and for as long as an archive is written."""
COMPLETE = "complete"
INCOMPLETE = "incomplete"
_MISSING = "missing-"
_UNFINISHED = ".part"


class ArchiveUnavailable(OSError):
    """The file system of the archive can't be used, by whatever error of its own."""


class Folder:
    """All calls block. Raise `ArchiveUnavailable`, or another `OSError` of our own disk."""

    def __init__(
        self, url: str, run: str, form: ArchiveFormat, *, part_messages: int = PART_MESSAGES
    ) -> None:
        self.part_messages = part_messages
        core: Any = import_module("fsspec.core")
        self._run = run
        self._form: ArchiveFormat = form
        with self._asked():
            self._files, self._path = core.url_to_fs(f"{url.rstrip('/')}/{run}")
            self._files.makedirs(self._path, exist_ok=True)

    def is_finished(self) -> bool:
        return self._has(COMPLETE) or self._has(INCOMPLETE)

    def next_offset(self) -> int:
        """The first message of the first part that is not there."""
        return max(self.firsts(), default=-self.part_messages) + self.part_messages

    def firsts(self) -> list[int]:
        """The first message of each part, in their order."""
        return sorted(int(name.partition(".")[0]) for name in self._names() if name[0].isdigit())

    @contextmanager
    def reading(self, first_offset: int) -> Generator[Any]:
        """The file of a part, as it was written."""
        with self._asked():
            file: Any = self._files.open(f"{self._path}/{self._name(first_offset)}", "rb")
            with file:
                yield file

    def write(
        self, first_offset: int, views: Sequence[TrajectoryView], missing: Sequence[range] = ()
    ) -> None:
        """One part, and which of its messages it lacks."""
        name = self._name(first_offset)
        if missing:
            if self._has(name):
                return  # by a gateway that read them in time
            self._put_ranges(f"{_MISSING}{first_offset:012d}", missing)
        self._put(name, lambda path: _write(path, views, self._form))

    @property
    def is_parquet(self) -> bool:
        return self._form == "parquet"

    def _name(self, first_offset: int) -> str:
        return f"{first_offset:012d}.{'parquet' if self.is_parquet else 'jsonl.zst'}"

    def finish(self) -> None:
        """All parts are there."""
        missing = self._missing()
        self._put_ranges(INCOMPLETE if missing else COMPLETE, missing)
        leftovers = [name for name in self._names() if name.endswith(_UNFINISHED)]
        with self._asked():
            for name in leftovers:  # of a gateway that died, or is late
                self._files.rm_file(f"{self._path}/{name}")

    def _missing(self) -> list[range]:
        """What all parts lack."""
        names = sorted(name for name in self._names() if name.startswith(_MISSING))
        with self._asked():
            texts = [self._files.cat_file(f"{self._path}/{name}").decode() for name in names]
        lines = [line.partition("-") for text in texts for line in text.splitlines()]
        return as_ranges(n for first, _, last in lines for n in range(int(first), int(last) + 1))

    def _put_ranges(self, name: str, ranges: Sequence[range]) -> None:
        """A line with the first and the last number of each."""
        lines = "".join(f"{numbers[0]}-{numbers[-1]}\n" for numbers in ranges)
        self._put(name, lambda path: path.write_text(lines))

    def _put(self, name: str, fill: Callable[[Path], object]) -> None:
        """Written beside and moved into place."""
        with tempfile.TemporaryDirectory(prefix="warren-archive-") as folder:
            local = Path(folder) / name
            fill(local)
            beside = f"{self._path}/.{name}.{secrets.token_hex(4)}{_UNFINISHED}"
            with self._asked():
                self._files.put_file(str(local), beside)
                self._files.mv(beside, f"{self._path}/{name}")

    def _has(self, name: str) -> bool:
        with self._asked():
            self._files.invalidate_cache(self._path)
            return bool(self._files.exists(f"{self._path}/{name}"))

    def _names(self) -> list[str]:
        """What is there by now, whoever wrote it."""
        with self._asked():
            self._files.invalidate_cache(self._path)
            paths = [str(path) for path in self._files.ls(self._path, detail=False)]
        return [path.rpartition("/")[2] for path in paths]

    @contextmanager
    def _asked(self) -> Generator[None]:
        """Calls to the file system: each kind has errors of its own, and botocore's are no `OSError`."""
        try:
            yield
        except Exception as error:
            raise ArchiveUnavailable(
                f"the archive of {self._run} can't be used: {type(error).__name__}: {error}"
            ) from error


def _write(path: Path, views: Sequence[TrajectoryView], form: ArchiveFormat) -> None:
    if form == "parquet":
        with ParquetFile(path) as file:
            file.write(views)
        return
    arrow: Any = import_module("pyarrow")
    with arrow.CompressedOutputStream(str(path), "zstd") as file:
        file.write(json_lines(views))
