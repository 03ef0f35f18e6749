"""Installing foreign packages, and which env workers host them."""

import sys
from pathlib import Path

import pytest
from tests.support.hosting import Player, hosting
from tests.support.interacting import spec

from warren.errors import ConfigurationError
from warren_env_worker.foreign import virtual_environments
from warren_env_worker.foreign.episode import ForeignEpisode
from warren_env_worker.foreign.install import install
from warren_env_worker.foreign.package import Package, StartFailed
from warren_env_worker.host.protocol import Refused
from warren_env_worker.registry import hosted
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import TRUSTING

_OF_OURS = "warren_env_worker.environments"


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


def _install_python(name: str) -> None:
    """Without the package."""
    virtual_environments.python(name).parent.mkdir(parents=True)
    virtual_environments.python(name).symlink_to(sys.executable)
    virtual_environments.note_installed(name)


@pytest.mark.parametrize(
    ("name", "reference", "config"),
    [
        ("gymnasium", "gymnasium.environment:Gymnasium", {"env": "FrozenLake-v1"}),
        ("verifiers", "verifiers.environment:Verifiers", {"taskset": "mine"}),
        ("inspect_ai", "inspect_ai.environment:InspectAi", {"task": "mine/task"}),
        ("harbor", "harbor.environment:Harbor", {"path": "."}),
    ],
)
async def test_a_package_that_does_not_start_fails_its_episodes_by_that_name(
    name: str, reference: str, config: dict[str, object]
) -> None:
    """And not as one that was lost or that the policy killed."""
    _install_python(name)
    async with hosting(f"{_OF_OURS}.{reference}") as host:
        answer = await Player(host, spec(name, environment_config=config)).reset()
    assert isinstance(answer, Refused), answer
    assert answer.kind is FailureKind.ENVIRONMENT_ERROR
    told = f"StartFailed: {name} could not be started: it ended with 1. What it printed is in"
    assert told in answer.reason
    assert f"warren env install {name}" in answer.reason


async def test_a_package_whose_python_is_gone_does_not_start() -> None:
    _install_python("gymnasium")
    virtual_environments.python("gymnasium").unlink()
    episode = ForeignEpisode(Package("gymnasium", "gymnasium_episode.py"), {})
    with pytest.raises(StartFailed, match="its Python can't be run"):
        await episode.begin()


async def test_a_package_that_is_killed_each_time_as_it_starts_does_not_start(
    tmp_path: Path,
) -> None:
    _install_python("gymnasium")
    program = tmp_path / "killed.py"
    program.write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(StartFailed, match="it was lost 3 times"):
        await Package("gymnasium", str(program)).episode()
