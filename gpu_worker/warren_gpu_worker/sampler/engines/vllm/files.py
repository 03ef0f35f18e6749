"""Folders that vLLM reads, at one path on every machine over which it is spread.

vLLM tells each of its processes the same path. Other machines get what the first one has written through vLLM's own
channel, a piece at a time; nothing is sampled meanwhile. Where they see the first one's folder anyway, since they share
its disk, nothing is written twice.

Invariant: what another machine keeps for us is gone when its processes are (`memory_folder`).
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from vllm.v1.engine.llm_engine import LLMEngine

from warren_gpu_worker.memory_folder import Scratch, adopt

_PIECE_BYTES = 32 << 20


class _Process(Protocol):
    """vLLM's worker, as far as it matters here."""

    local_rank: int


class Files:
    """Those in `scratch`, which is this machine's alone if there are no others."""

    def __init__(self, engine: LLMEngine, scratch: Scratch, n_machines: int) -> None:
        self.folder = scratch.folder
        self._engine = engine
        self._has_others = n_machines > 1

    def spread(self, path: Path) -> None:
        """Have this file, or the files of this folder, on the other machines as well. Raises what vLLM does."""
        if self._has_others:
            for file in [path] if path.is_file() else sorted(path.iterdir()):
                self._spread_file(file)

    def move(self, old: Path, new: Path) -> None:
        """In the place of what is there."""
        shutil.rmtree(new, ignore_errors=True)
        old.rename(new)
        self._elsewhere(_move, str(old), str(new))

    def remove(self, path: Path) -> None:
        """A folder or a file."""
        _remove_here(path)
        self._elsewhere(_remove, str(path))

    def _spread_file(self, file: Path) -> None:
        with file.open("rb") as source:
            while (piece := source.read(_PIECE_BYTES)) or not source.tell():
                self._elsewhere(_append, str(file), source.tell() - len(piece), piece)
                if not piece:
                    return

    def _elsewhere(self, do: Callable[..., None], *arguments: object) -> None:
        if self._has_others:
            self._engine.collective_rpc(do, args=(str(self.folder), *arguments))


def _append(process: _Process, folder: str, file: str, offset: int, piece: bytes) -> None:
    if _writes(process, folder):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        with Path(file).open("r+b" if offset else "wb") as target:
            target.seek(offset)
            target.write(piece)


def _move(process: _Process, folder: str, old: str, new: str) -> None:
    if _writes(process, folder):
        shutil.rmtree(new, ignore_errors=True)
        Path(old).rename(new)


def _remove(process: _Process, folder: str, path: str) -> None:
    if _writes(process, folder):
        _remove_here(Path(path))


def _remove_here(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _writes(process: _Process, folder: str) -> bool:
    """One process of each machine, where the folder is not that of the first machine itself."""
    return process.local_rank == 0 and adopt(Path(folder))
