"""Installing foreign packages, and which env workers host them."""

from pathlib import Path

import pytest

from warren.errors import ConfigurationError
from warren_env_worker.foreign import virtual_environments
from warren_env_worker.foreign.install import install
from warren_env_worker.registry import hosted
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.operator_policy import TRUSTING


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARREN_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("python", ["/bin/false", "/no/python"])
def test_what_cannot_be_installed_is_told_and_does_not_count(python: str) -> None:
    with pytest.raises(ConfigurationError, match="could not be installed"):
        install("gymnasium", python=Path(python))
    assert not virtual_environments.is_installed("gymnasium")


async def test_one_that_is_not_installed_is_not_hosted_and_says_how() -> None:
    asked_for = EnvWorkerSettings(environments=("gymnasium",), only_named=True)
    with pytest.raises(ConfigurationError, match="not installed on this machine") as refused:
        async with hosted(asked_for, TRUSTING):
            pass
    assert refused.value.hint == "Install it: warren env install gymnasium"
    async with hosted(EnvWorkerSettings(), TRUSTING) as found:
        assert "gymnasium" not in found.hosts
    virtual_environments.folder("gymnasium").mkdir(parents=True)
    virtual_environments.note_installed("gymnasium")
    async with hosted(EnvWorkerSettings(), TRUSTING) as found:
        assert "gymnasium" in found.hosts
