"""A policy that is announced before it is there."""

import os
from pathlib import Path

from tests.support.episodes import policy

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.weights import save_policy

SEAL = "SHA256SUMS"


class LatePolicy:
    """Whoever reads it waits until it is delivered."""

    def __init__(self, base_model: str, base_folder: str, folder: Path) -> None:
        self._ready, self._folder = folder / "ready", folder / "v1"
        save_policy(load_base(base_folder), self._ready.as_uri())
        self._folder.mkdir()
        os.mkfifo(self._folder / SEAL)
        self.reference = policy(base_model, min_version=1, url=self._folder.as_uri())

    def deliver(self) -> None:
        """To a reader that is there or comes; its first attempt may fail, and is repeated."""
        waiting = os.open(self._folder / SEAL, os.O_WRONLY)
        (self._folder / SEAL).unlink()
        self._folder.rmdir()
        self._ready.rename(self._folder)
        os.close(waiting)
