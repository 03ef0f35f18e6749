"""The tiny family for deployments: built once in a session of tests, not once for each home.

A worker takes what it finds in the `models` folder of its home and builds what it misses, which takes a process
and several seconds. A build moves into place whole, so all testers of a session can share one folder.
"""

import fcntl
import os
import shutil
from pathlib import Path

from warren_gpu_worker.base_models.tiny import ensure_tiny

_shared: list[Path] = []


def keep_models(session_folder: Path) -> None:
    """Called once, with the folder that a tester has in this session."""
    is_one_of_several = "PYTEST_XDIST_WORKER" in os.environ
    folder = (session_folder.parent if is_one_of_several else session_folder) / "models"
    folder.mkdir(exist_ok=True)
    _shared[:] = [folder]


def share_models(home: Path) -> None:
    """Let a worker of this home find what others of the session have built. Outside of a session it builds its own."""
    folder = home / "models"
    if _shared and not folder.exists():
        folder.symlink_to(_shared[0])


def own_model(name: str, home: Path) -> Path:
    """The folder of a base model of this home, which may be changed: a copy of what is built once."""
    if not _shared:
        return ensure_tiny(name, home / "models")
    with (_shared[0] / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = ensure_tiny(name, _shared[0])
    own = home / "models" / built.relative_to(_shared[0])
    return Path(shutil.copytree(built, own, dirs_exist_ok=True))
