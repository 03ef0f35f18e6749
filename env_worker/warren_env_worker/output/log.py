"""The file that holds what one environment prints: one for each environment, under the home folder.

Invariants: the file and the one before it hold at most about `MAX_BYTES` each, however many processes
append to it; each append is one `write` at the end of the file, so that lines of several processes
never mix, and a process that dies leaves whole lines. What can't be written, to a full disk for
instance, is dropped: nobody who prints is ever held up.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

MAX_BYTES = 8 * 1024 * 1024
"""Then the file becomes the old one, and a new one is begun."""
_FOLDER = "environments"
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_NAME_CHARS = 100

Hear = Callable[[bytes], None]
"""Told what is printed, as it comes, from another thread; must not raise nor block."""


MakeHearing = Callable[[], Hear]


def nobody() -> Hear:
    """Nobody else listens."""
    return lambda _printed: None


def log_folder(log_dir: Path) -> Path:
    return log_dir / _FOLDER


def log_path(log_dir: Path, reference: str) -> Path:
    """Of an environment, by `module:Class`."""
    return log_folder(log_dir) / f"{_UNFIT.sub('.', reference)[:_MAX_NAME_CHARS]}.log"


class OutputLog:
    def __init__(self, path: Path, make_hearing: MakeHearing = nobody) -> None:
        """What each process prints goes to a `Hear` of its own, too."""
        self.path = path
        self.make_hearing = make_hearing

    @property
    def old_path(self) -> Path:
        return self.path.with_suffix(".log.1")

    def append(self, lines: bytes) -> None:
        """Whole lines. Blocks for as long as the disk does; never raises."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self._fits(len(lines)):
                self._rotate(len(lines))
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, lines)
            finally:
                os.close(descriptor)

    def _fits(self, n_bytes: int) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return self.path.stat().st_size + n_bytes <= MAX_BYTES
        return True

    def _rotate(self, n_bytes: int) -> None:
        """By one process at a time. Raises `BlockingIOError` while another one does it."""
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._fits(n_bytes):  # nobody has done it meanwhile
                self.path.replace(self.old_path)
        finally:
            os.close(descriptor)


def stamped(lines: bytes, who: str) -> bytes:
    """Each line with the time (UTC), and who prints."""
    head = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {who} ".encode()
    return b"".join(head + line + b"\n" for line in lines.removesuffix(b"\n").split(b"\n"))
