"""A folder in memory for this process alone, which is gone when the process is, however it ended.

Who dies by a signal can't tidy up; so the next one to open a folder removes those whose owner holds
their lock no longer (the kernel lets go of it with the process).
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_MEMORY_FILES = Path("/dev/shm")
_LOCK = "lock"


class Scratch:
    """`folder` is empty but for a lock file. `kind` names folders of the same use."""

    def __init__(self, kind: str, parent: Path | None = None) -> None:
        self._parent = parent or default_parent()
        self._kind = kind
        self._sweep()
        self.folder, self._lock = self._open()

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    def _open(self) -> tuple[Path, int]:
        """A new folder, and its lock, which is held until the process ends."""
        while True:
            folder = Path(tempfile.mkdtemp(prefix=f"{self._kind}-", dir=self._parent))
            lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (folder / _LOCK).exists():  # nobody swept it before it was locked
                return folder, lock
            os.close(lock)

    def _sweep(self) -> None:
        for lock_file in self._parent.glob(f"{self._kind}-*/{_LOCK}"):
            try:
                lock = os.open(lock_file, os.O_RDWR)
            except OSError:  # gone meanwhile, or another user's
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock_file.parent, ignore_errors=True)
            except BlockingIOError:
                pass
            finally:
                os.close(lock)


def default_parent() -> Path:
    """The host's memory as a folder, where there is one."""
    return _MEMORY_FILES if _MEMORY_FILES.is_dir() else Path(tempfile.gettempdir())
