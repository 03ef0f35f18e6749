"""Foreign packages: what counts as installed, and what is said where one is not."""

from pathlib import Path

import pytest

from warren.errors import ConfigurationError
from warren_env_worker.foreign import virtual_environments
from warren_env_worker.foreign.install import install


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARREN_HOME", str(tmp_path))
    return tmp_path


def test_every_package_has_a_list_of_pinned_requirements() -> None:
    assert "gymnasium" in virtual_environments.names()
    for name in virtual_environments.names():
        listed = virtual_environments.requirements(name).read_text().splitlines()
        assert all("==" in line for line in listed if not line.startswith("#"))


def test_what_was_installed_by_another_list_does_not_count(home: Path) -> None:
    virtual_environments.folder("gymnasium").mkdir(parents=True)
    assert not virtual_environments.is_installed("gymnasium")
    virtual_environments.note_installed("gymnasium")
    assert virtual_environments.is_installed("gymnasium")
    (home / "environments" / "gymnasium" / "installed").write_text("of another list")
    assert not virtual_environments.is_installed("gymnasium")


def test_a_package_that_there_is_no_list_of() -> None:
    with pytest.raises(ConfigurationError, match="did you mean gymnasium"):
        install("gymnasum")
