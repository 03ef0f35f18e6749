"""The folder of a partial download: of which run and version it is, and what has come.

Invariants
- A note in the folder says what it is of before the first byte of a file is there, so bytes of two versions are
  never mixed: what is left of another version is dropped before the download begins.
- A folder without a note may be somebody's own, and is never touched.
"""

import hashlib
import logging
import shutil
from pathlib import Path

from pydantic import ValidationError

from warren.errors import ConfigurationError, GatewayError
from warren_schemas.base import Frozen
from warren_schemas.files import SEAL, FileView, FolderView
from warren_schemas.ids import RunId

NOTE = ".warren-download.json"
_NEW = f"{NOTE}.new"
"""The note while it is written; a folder with nothing else was left by a download that had just begun."""

log = logging.getLogger(__name__)


class Wanted(Frozen):
    """What is downloaded; the content of the note."""

    run: RunId
    version: str
    files: tuple[FileView, ...]


def prepare(part: Path, wanted: Wanted) -> None:
    """Make the folder, or take up what is left of the same files. Raises `ConfigurationError`, `OSError`."""
    if part.exists():
        if (found := _noted(part)) == wanted:
            return
        _drop(part, found)
    part.mkdir(parents=True)
    (part / _NEW).write_text(wanted.model_dump_json(), encoding="utf-8")
    (part / _NEW).replace(part / NOTE)


def _drop(part: Path, found: Wanted | None) -> None:
    if found is not None:
        log.warning("%s held a part of %s@%s and is emptied", part, found.run, found.version)
    elif not part.is_dir() or any(path.name != _NEW for path in part.iterdir()):
        raise ConfigurationError(
            f"{part} is in the way, and is not left of a download",
            hint="Move it away, or name another folder.",
        )
    shutil.rmtree(part)


def inside(folder: Path, name: str) -> Path:
    """Where a file belongs; a gateway may not write elsewhere."""
    if name.startswith("/") or ".." in Path(name).parts or name in (NOTE, SEAL):
        raise GatewayError(f"The gateway named a file outside of the folder: {name!r}")
    return folder / name


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def verify(file: FileView, path: Path) -> None:
    """Raises `GatewayError`, and drops the file, where its digest is another."""
    with path.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != file.sha256:
        path.unlink()
        raise GatewayError(
            f"{file.name} is not what was saved: its SHA-256 differs",
            hint="Try again. If it happens again, `sha256sum -c SHA256SUMS` where it lies says more.",
        )


def finish(part: Path, to: Path, folder: FolderView) -> None:
    """Every file is whole: the folder gets its seal and its name."""
    lines = [f"{file.sha256}  {file.name}\n" for file in folder.files]
    (part / SEAL).write_text("".join(lines), encoding="utf-8")
    (part / NOTE).unlink(missing_ok=True)
    part.rename(to)


def _noted(part: Path) -> Wanted | None:
    try:
        return Wanted.model_validate_json((part / NOTE).read_bytes())
    except (OSError, ValidationError):
        return None
