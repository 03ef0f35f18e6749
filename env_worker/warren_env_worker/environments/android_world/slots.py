"""Who has which server of a pool, and which ones are left alone for a while.

A server has one emulator, and nothing of its own to tell its users apart. So an episode locks it, in a file
below `~/.warren/android_world`, for all env workers of this machine; the lock goes with its process, however that ends.
The same file remembers that the server failed: it is in quarantine then, for longer each time that it fails again. And it
remembers the task that the device was given, from before it gets it until that is torn down, for whoever comes after a kill.

Invariants: what a slot's file says is written by who has its lock, in one piece: a kill leaves what was said before, or what is
said now. A file that can't be read says nothing.
"""

import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from warren_schemas.base import Frozen

FIRST_QUARANTINE_S, LONGEST_QUARANTINE_S = 30.0, 900.0
MAX_RECORD_BYTES = 65_536

log = logging.getLogger(__name__)


class GivenTask(Frozen):
    """What a device was given, with the suite that it is from."""

    family: str
    n_combinations: int
    seed: int
    task_type: str
    task_idx: int
    goal: str
    """Its digest."""

    @property
    def named(self) -> Mapping[str, str | int]:
        """As the server is asked for it."""
        return {"task_type": self.task_type, "task_idx": self.task_idx}


def goal_digest(goal: str) -> str:
    return hashlib.blake2b(goal.encode(), digest_size=16).hexdigest()


class Record(Frozen):
    """Of a server that has failed since it last played an episode to its end, or has a task."""

    task: GivenTask | None = None
    n_failures: int = 0
    until_s: float = 0.0
    """Unix time."""
    reason: str = ""


class Slot:
    """A server that this process has for itself, until `release`."""

    def __init__(self, url: str, descriptor: int) -> None:
        """`descriptor` of its locked file."""
        self._url = url
        self._descriptor = descriptor
        self._record = _read(descriptor)

    @property
    def quarantine_s(self) -> float:
        """For how long it is still left alone."""
        return self._record.until_s - time.time()

    @property
    def reason(self) -> str:
        return self._record.reason

    @property
    def task(self) -> GivenTask | None:
        """That is not torn down yet."""
        return self._record.task

    def note(self, task: GivenTask) -> None:
        """Before the server hears of it."""
        self._write(self._record.model_copy(update={"task": task}))

    def forget(self) -> None:
        self._write(self._record.model_copy(update={"task": None}))

    def quarantine(self, reason: str) -> None:
        n_failures = self._record.n_failures + 1
        lasts_s = min(FIRST_QUARANTINE_S * 2 ** min(n_failures - 1, 10), LONGEST_QUARANTINE_S)
        log.warning("%s is left alone for %.0f s: %s", self._url, lasts_s, reason)
        until_s = time.time() + lasts_s
        self._write(Record(task=self.task, n_failures=n_failures, until_s=until_s, reason=reason))

    def trust(self) -> None:
        """It played to the end."""
        if self._record.n_failures:
            self._write(Record(task=self.task))

    def release(self) -> None:
        os.close(self._descriptor)

    def _write(self, record: Record) -> None:
        """The first line counts, so nothing is cut off before it is written."""
        self._record = record
        os.pwrite(self._descriptor, record.model_dump_json().encode() + b"\n", 0)
        os.fsync(self._descriptor)


def taken(url: str, folder: Path) -> Slot | None:
    """None while another has it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.blake2b(url.encode(), digest_size=16).hexdigest()
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return Slot(url, descriptor)


def _read(descriptor: int) -> Record:
    try:
        line, _, _ = os.pread(descriptor, MAX_RECORD_BYTES, 0).partition(b"\n")
        return Record.model_validate_json(line)
    except ValidationError:
        return Record()
