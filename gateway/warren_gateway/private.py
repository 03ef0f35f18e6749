"""Files and folders that only their owner may read.

What is there already keeps the permissions that its owner gave it.
"""

import os
from pathlib import Path


def make_private_folder(path: Path) -> None:
    """With its parents, which are made like any other folder. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)


def make_private_file(path: Path) -> None:
    """Empty, where there is none. Raises `OSError`."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
