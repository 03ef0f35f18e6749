"""Copies of the newest policies in the memory of this host, for the samplers on it.

Where policies lie in a store that is no disk of this host, a trainer leaves the newest one of each of
its models here as well, and a sampler beside it takes it from here: not a byte of it comes through the
network, and the files are mapped, not read. On a local disk the kernel's cache has the files, and a link
to them is left here: it says that this host has just written them, so nobody need verify them.

Invariants:
- The store has a policy before anybody hears of it, so nothing depends on a copy: one that is not
  there, or goes while it is read, only costs the way to the store.
- A copy is whole or not there, since it appears by one rename.
- Copies take at most half of the memory that is free, and are gone when their trainer is (`scratch`).
- What another user put there is never read, nor is what was written anew since a link was made to it.
"""

import hashlib
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from warren_gpu_worker.memory_folder import Scratch, default_parent

_KIND = "warren-policies"
_STAGE = "stage"

log = logging.getLogger(__name__)


class LocalCopies:
    """Those of one trainer; `parent` is a folder in memory."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self._scratch: Scratch | None = None
        self._newest: dict[str, Path] = {}

    def close(self) -> None:
        if self._scratch:
            self._scratch.close()

    def stage(self, url: str, size_bytes: int, write: Callable[[Path], object]) -> Path | None:
        """A folder filled by `write`, which nobody sees yet; None where it doesn't fit."""
        try:
            stage = self._folder() / _STAGE
            shutil.rmtree(stage, ignore_errors=True)
            if size_bytes > shutil.disk_usage(stage.parent).free // 2:
                log.info("not enough memory for a copy of %s (%d bytes)", url, size_bytes)
                return None
            stage.mkdir()
            write(stage)
        except OSError as error:  # somebody else took the space meanwhile, perhaps
            log.warning("no copy of %s in memory: %s", url, error)
            return None
        return stage

    def show(self, url: str, stage: Path) -> None:
        """Let samplers see what was staged, in the place of the model's last one."""
        place = stage.with_name(_name(url))
        policies, _, _ = url.rpartition("/")
        try:
            shutil.rmtree(place, ignore_errors=True)
            os.rename(stage, place)
        except OSError as error:
            log.warning("no copy of %s in memory: %s", url, error)
            return
        last = self._newest.get(policies)
        self._newest[policies] = place
        if last and last != place:
            shutil.rmtree(last, ignore_errors=True)

    def link(self, url: str, folder: Path) -> None:
        """To a policy on a disk of this host, in the place of the model's last one."""
        try:
            stage = self._folder() / _STAGE
            shutil.rmtree(stage, ignore_errors=True)
            stage.mkdir()
            for file in folder.iterdir():
                link, stat = stage / file.name, file.stat()
                link.symlink_to(file)
                os.utime(link, ns=(stat.st_atime_ns, stat.st_mtime_ns), follow_symlinks=False)
        except OSError as error:
            log.warning("no link to %s in memory: %s", url, error)
            return
        self.show(url, stage)

    def drop_copy(self, policies: str) -> None:
        """Nobody trains the model here any more whose policies lie below this URL."""
        if place := self._newest.pop(policies, None):
            shutil.rmtree(place, ignore_errors=True)

    def _folder(self) -> Path:
        """Made for the first copy: most trainers leave none."""
        self._scratch = self._scratch or Scratch(_KIND, self._parent)
        return self._scratch.folder


def find_copy(url: str, parent: Path | None = None) -> Path | None:
    """Where a trainer of this user on this host left a copy, if one did."""
    for place in (parent or default_parent()).glob(f"{_KIND}-*/{_name(url)}"):
        try:
            is_ours = place.stat().st_uid == place.parent.stat().st_uid == os.geteuid()
        except OSError:  # gone meanwhile
            continue
        if is_ours and _is_as_linked(place):
            return place
    return None


def _is_as_linked(place: Path) -> bool:
    """A link has the time of what it leads to; a file is a copy."""
    try:
        return all(file.lstat().st_mtime_ns == file.stat().st_mtime_ns for file in place.iterdir())
    except OSError:  # gone meanwhile
        return False


def _name(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:32]
