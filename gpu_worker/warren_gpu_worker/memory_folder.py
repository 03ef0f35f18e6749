"""A folder in memory for this process alone, which is gone when the process is, however it ended.

Who dies by a signal can't tidy up; so the next one to open a folder removes those whose owner holds
their lock no longer (the kernel lets go of it with the process).

Where processes on several machines are told one path, those on other machines `adopt` it.
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
        _sweep(self._parent, kind)
        self.folder, self._lock = self._open()

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    def _open(self) -> tuple[Path, int]:
        """A new folder, and its lock, which is held until the process ends."""
        while True:
            folder = Path(tempfile.mkdtemp(prefix=f"{self._kind}-", dir=self._parent))
            lock = _locked(folder)
            if (folder / _LOCK).exists():  # nobody swept it before it was locked
                return folder, lock
            os.close(lock)


_adopted: dict[Path, int] = {}
"""Folders that this process has adopted, and their locks, which are held until it ends."""


def adopt(folder: Path) -> bool:
    """Whether this process has a folder of its own at this path, of a `Scratch` on another machine; it is made if need be.

    False where that one is seen here, on a disk of both machines. Raises `OSError`.
    """
    if folder in _adopted:
        return True
    _sweep(folder.parent, folder.name.rpartition("-")[0])
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    _adopted[folder] = _locked(folder)
    return True


def _locked(folder: Path) -> int:
    lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _sweep(parent: Path, kind: str) -> None:
    for lock_file in parent.glob(f"{kind}-*/{_LOCK}"):
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
