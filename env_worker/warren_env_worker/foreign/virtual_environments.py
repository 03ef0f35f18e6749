"""Where foreign packages are installed: `~/.warren/environments/NAME`, a virtual environment each.

Invariant: one that was only half installed, or by another list of requirements, does not count.
"""

import hashlib
from pathlib import Path

from warren.settings import warren_home

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
_REQUIREMENTS = HERE / "requirements"


def names() -> list[str]:
    """All that can be installed."""
    return sorted(path.stem for path in _REQUIREMENTS.glob("*.txt"))


def requirements(name: str) -> Path:
    return _REQUIREMENTS / f"{name}.txt"


def folder(name: str) -> Path:
    return warren_home() / "environments" / name


def python(name: str) -> Path:
    return folder(name) / "bin" / "python"


def is_installed(name: str) -> bool:
    mark = _mark(name)
    return mark.is_file() and mark.read_text() == _digest(name)


def note_installed(name: str) -> None:
    _mark(name).write_text(_digest(name))


def _mark(name: str) -> Path:
    return folder(name) / "installed"


def _digest(name: str) -> str:
    return hashlib.blake2b(requirements(name).read_bytes(), digest_size=16).hexdigest()
