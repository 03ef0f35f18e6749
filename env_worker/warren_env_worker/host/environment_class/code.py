"""Which code an environment was: a digest of its source, recorded with every trajectory."""

import hashlib
import sys
from pathlib import Path
from typing import Any

from warren.environment import Env

MAX_FILES = 2000


def code_digest(environment: type[Env[Any]]) -> str:
    """BLAKE2b of the Python files of its package (or of its module), 16 hexadecimal digits.

    Empty where the source is not to be had.
    """
    digest = hashlib.blake2b(digest_size=8)
    files = _files(environment.__module__)
    try:
        for name, path in files:
            digest.update(f"{name}\0".encode())
            digest.update(path.read_bytes())
    except OSError:
        return ""
    return digest.hexdigest() if files else ""


def _files(module: str) -> list[tuple[str, Path]]:
    package = module.rpartition(".")[0] or module
    root = getattr(sys.modules.get(package), "__file__", None)
    if root is None:
        root = getattr(sys.modules.get(module), "__file__", None)
    if root is None:
        return []
    path = Path(root)
    if path.name != "__init__.py":
        return [(path.name, path)]
    # An editor's lock on a file is a link to nowhere, with a name like any other's.
    found = sorted(file for file in path.parent.rglob("*.py") if file.is_file())[:MAX_FILES]
    return [(str(file.relative_to(path.parent)), file) for file in found]
