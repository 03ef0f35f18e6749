"""Base models that users uploaded to a gateway: from its store into a folder of this machine. Everything here blocks.

Invariants
- A folder appears under its name by one rename, once its seal is what the name says and every file is what the seal
  says. So a worker may die at any line.
- Together they take no more than the bound; the least recently used goes first. One that a worker of this machine uses
  stays: each holds a lock on it, which ends with its process.
- Nothing is fetched but files that a base model may have.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from warren_gpu_worker.atomic_folder import fetch_unsealed, file_sizes, join_url
from warren_schemas.base_models.files import BadBaseModel, check_names
from warren_schemas.base_models.names import SEAL, folder_name, is_seal_of

_GIB = 1024**3
_PARTIAL = ".partial-"
_FORGOTTEN_S = 86_400.0


class CantFetch(Exception):
    """It can't be had; says why."""


class NoRoom(CantFetch):
    """Its files don't fit here; says so in words for everybody."""


class UploadedModels:
    def __init__(self, url: str, folder: Path, most_bytes: int) -> None:
        """Those at the gateway's URL; `folder` may be shared by workers of this machine."""
        self._url = url
        self._folder = folder
        self._most_bytes = most_bytes
        self._held: tuple[str, int] | None = None

    def fetch(self, base_model: str) -> str:
        """The folder with its files, which stays until another one is fetched.

        Raises `CantFetch`, `OSError` and what the store's file system raises.
        """
        try:
            name = folder_name(base_model)
        except ValueError as error:
            raise CantFetch(str(error)) from error
        self._hold(name)
        place = self._folder / name
        if not place.is_dir():
            self._download(base_model, name, place)
        os.utime(place)
        return str(place)

    def release(self) -> None:
        """What was fetched last may go."""
        if self._held is not None:
            os.close(self._held[1])
            self._held = None

    def _hold(self, name: str) -> None:
        if self._held is not None and self._held[0] == name:
            return
        self.release()
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = self._lock(name)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        self._held = name, descriptor

    def _lock(self, name: str) -> int:
        """Its file stays when the model goes: whoever waits for the lock has the same one."""
        return os.open(self._folder / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _download(self, base_model: str, name: str, place: Path) -> None:
        url = join_url(self._url, name)
        stage = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=self._folder))
        try:
            sha256s = _digests(base_model, url, stage)
            self._make_room(sum(file_sizes(url, sha256s)))
            for file, sha256 in sha256s.items():
                fetch_unsealed(url, [file], stage)
                _verify(base_model, stage / file, sha256)
            try:
                os.rename(stage, place)
            except OSError:  # another worker was faster
                if not place.is_dir():
                    raise
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def _make_room(self, n_bytes: int) -> None:
        if n_bytes > self._most_bytes:
            raise NoRoom(
                f"its files need {n_bytes / _GIB:.1f} GiB, and the worker keeps {self._most_bytes / _GIB:.1f} GiB"
            )
        self._drop_forgotten()
        sizes = {place: _folder_bytes(place) for place in self._models()}
        for place in sorted(sizes, key=lambda one: one.stat().st_mtime):
            if sum(sizes.values()) + n_bytes <= self._most_bytes:
                break
            if self._evict(place):
                del sizes[place]
        free_bytes = min(
            self._most_bytes - sum(sizes.values()), shutil.disk_usage(self._folder).free
        )
        if n_bytes > free_bytes:
            raise NoRoom(
                f"its files need {n_bytes / _GIB:.1f} GiB on the worker's disk, and"
                f" {max(0, free_bytes) / _GIB:.1f} GiB are free"
            )

    def _models(self) -> list[Path]:
        return [one for one in self._folder.iterdir() if one.is_dir() and one.name[0] != "."]

    def _evict(self, place: Path) -> bool:
        """Whether it is gone; not while a worker uses it."""
        descriptor = self._lock(place.name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            gone = place.with_name(f"{_PARTIAL}{place.name}-{os.getpid()}")
            os.rename(place, gone)
            shutil.rmtree(gone, ignore_errors=True)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True

    def _drop_forgotten(self) -> None:
        """What workers that died have left half."""
        for one in self._folder.glob(f"{_PARTIAL}*"):
            with suppress(FileNotFoundError):
                if one.stat().st_mtime < time.time() - _FORGOTTEN_S:
                    shutil.rmtree(one, ignore_errors=True)


def _digests(base_model: str, url: str, stage: Path) -> dict[str, str]:
    """SHA-256 of each file by its name, as the seal has them that the model's name is of."""
    fetch_unsealed(url, [SEAL], stage)
    seal = (stage / SEAL).read_bytes()
    if not is_seal_of(base_model, seal):
        raise CantFetch(f"{url}: {SEAL} is not that of {base_model}")
    pairs = (line.partition("  ") for line in seal.decode().splitlines())
    sha256s = {name: sha256 for sha256, _, name in pairs}
    try:
        check_names(sha256s)
    except BadBaseModel as error:
        raise CantFetch(f"{url}: {error}") from error
    return sha256s


def _verify(base_model: str, file: Path, sha256: str) -> None:
    with file.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != sha256:
            raise CantFetch(f"{file.name} of {base_model} is not what was uploaded")


def _folder_bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in place.iterdir())
