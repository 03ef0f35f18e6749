"""Which code an environment was."""

import importlib
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from warren.environment import Env
from warren_env_worker.host.environment_class.code import code_digest

SOURCE = "from warren import Env\n\n\nclass Mine(Env): ...\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    folder = tmp_path / "mine_alone"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "env.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield folder
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def mine() -> type[Env]:
    return importlib.import_module("mine_alone.env").Mine


def test_an_editors_lock_changes_nothing(package: Path) -> None:
    before = code_digest(mine())
    (package / ".#env.py").symlink_to("nobody@nowhere.1:2")
    assert len(before) == 16
    assert code_digest(mine()) == before


def test_another_file_of_the_package_changes_it(package: Path) -> None:
    before = code_digest(mine())
    (package / "other.py").write_text("x = 1\n")
    assert code_digest(mine()) != before
