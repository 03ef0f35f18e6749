"""Files, functions and programs that a config names, and the variables that children inherit."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.trust.permitted import JUDGE, KEY, VALUE, permissions, policy

from warren.environment import ConfigError
from warren.host_services.settings import SandboxSettings
from warren_env_worker.environments.arithmetic import Arithmetic
from warren_env_worker.environments.math import Math
from warren_env_worker.environments.math_python import MathPython
from warren_env_worker.permissions.permissions import acting
from warren_env_worker.permissions.variables import child_variables
from warren_env_worker.rewards.composition import Composition
from warren_schemas.config import FunctionReward, ServiceReward
from warren_schemas.operator_policy import TRUSTING

HERE = "tests.unit.env_worker.rewards.functions"


@pytest.fixture(autouse=True)
def _a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, VALUE)


@pytest.mark.parametrize(
    ("listed", "named", "may"),
    [
        ([], "os:environ.copy", False),
        ([], f"{HERE}:brevity", False),
        ([], "brevity", False),
        ([f"{HERE}:brevity"], f"{HERE}:brevity", True),
        ([f"{HERE}:brevity"], f"{HERE}:greedy", False),
        ([f"{HERE}:*"], f"{HERE}:greedy", True),
        ([f"{HERE}:*"], f"{HERE}:Judge.whole", False),
        ([f"{HERE}:*"], f"{HERE}.more:greedy", False),
        (["tests.support.patience:*"], "tests.support.patience:Path", False),
        ([f"{HERE}:*"], f"{HERE}:Judge", False),
        (["tests.support.environments:*"], "tests.support.environments:_hang", False),
        (
            ["warren_env_worker.rewards.function:*"],
            "warren_env_worker.rewards.function:cast",
            False,
        ),
        (
            ["warren_env_worker.host.startup:*"],
            "warren_env_worker.host.startup:child_variables",
            False,
        ),
    ],
)
def test_reward_functions_that_may_be_called(listed: list[str], named: str, may: bool) -> None:
    with acting(permissions(functions=listed)):
        if may:
            Composition([FunctionReward(function=named)])
            return
        with pytest.raises(ConfigError):
            Composition([FunctionReward(function=named)])


def test_installed_packages_are_searched_for_reward_functions_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    confined = permissions(functions=[f"{HERE}:*"])
    confined.function(f"{HERE}:brevity")
    monkeypatch.setattr(sys, "path", [])  # where they would be looked for
    monkeypatch.setattr(sys, "meta_path", [NoSearch()])
    confined.function(f"{HERE}:greedy")


class NoSearch:
    """Stands where distributions are found."""

    def find_distributions(self, context: object) -> NoReturn:
        raise AssertionError("distributions were searched")


def test_a_service_reward_is_checked_before_the_episode_begins() -> None:
    with acting(permissions()), pytest.raises(ConfigError, match="no service"):
        Composition([ServiceReward(url="http://127.0.0.1:1/")])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data root with a file, and one beside it; links and pipes."""
    root = tmp_path / "data"
    root.mkdir()
    (root / "in.jsonl").write_text('{"problem": "?", "answer": "1"}')
    (tmp_path / "data-2").mkdir()
    for out in (tmp_path / "out.jsonl", tmp_path / "data-2" / "out.jsonl"):
        out.write_text('{"problem": "secret", "answer": "1"}')
    (root / "link.jsonl").symlink_to(tmp_path / "out.jsonl")
    (root / "up").symlink_to(tmp_path)
    (root / "good.jsonl").symlink_to(root / "in.jsonl")
    os.mkfifo(root / "pipe.jsonl")
    (root / "folder.jsonl").mkdir()
    return root


def test_files_below_the_root(folder: Path) -> None:
    for path in ("in.jsonl", "./in.jsonl", "folder.jsonl/../in.jsonl", "good.jsonl"):
        with permissions(data_root=str(folder)).open_file(path) as file:
            assert file.read().startswith(b'{"problem"')
    with permissions(data_root=str(folder)).open_file(str(folder / "in.jsonl")) as file:
        assert file.read()


def test_all_other_files_are_as_good_as_none(folder: Path) -> None:
    outside = folder.parent / "out.jsonl"
    paths = (
        "none.jsonl", "../out.jsonl", "../none.jsonl", str(outside), "link.jsonl", "up/out.jsonl",
        "../data-2/out.jsonl", "pipe.jsonl", "folder.jsonl", "in.jsonl/x.jsonl", "x\0.jsonl",
        "/etc/shadow", "/proc/self/environ", "/dev/zero", "",
    )  # fmt: skip
    told = set[str]()
    for path in paths:
        with pytest.raises(ConfigError) as refused:
            permissions(data_root=str(folder)).open_file(path)
        told.add(str(refused.value).removeprefix(path))
    assert told == {": there is no such file below the env worker's data root"}
    with pytest.raises(ConfigError, match=r"has no data root, .*--operator-policy.* `data_root`"):
        permissions().open_file("in.jsonl")


@pytest.mark.parametrize("environment", [Math, MathPython, Arithmetic])
def test_the_environments_ask_for_their_files(
    environment: type[Math] | type[Arithmetic], folder: Path
) -> None:
    outside = str(folder.parent / "out.jsonl")
    with acting(permissions(data_root=str(folder))):
        made = environment(outside)
    with pytest.raises(ConfigError, match="there is no such file"):
        made.tasks("train")
    assert Arithmetic().tasks("test")
    with pytest.raises(ConfigError, match="no split"):
        Arithmetic().tasks("../../x")


def test_an_error_in_a_file_holds_nothing_of_it(folder: Path) -> None:
    (folder / "hidden.jsonl").write_text('["hidden"]\n')
    (folder / "rows.jsonl").write_text('{"problem": "?", "answer": {"hidden": 1}}\n')
    for name in ("hidden.jsonl", "rows.jsonl"):
        with acting(permissions(data_root=str(folder))), pytest.raises(ConfigError) as wrong:
            Math(name).tasks("train")
        assert "hidden" not in str(wrong.value).removeprefix(name)


@pytest.mark.parametrize(
    "settings",
    [
        {"python": "/bin/sh"},
        {"libraries": "/home"},
        {"tier": "http", "url": "http://127.0.0.1:1/"},
        {"tier": "http", "url": JUDGE, "key_variable": KEY},
    ],
)
def test_programs_and_services_of_sandboxes(settings: dict[str, Any]) -> None:
    sandbox = SandboxSettings.model_validate(settings)
    with acting(permissions(services=[{"url": JUDGE}])), pytest.raises(ConfigError):
        MathPython("x.jsonl", sandbox=sandbox)


def test_programs_that_are_listed() -> None:
    rules = {"python": ["/bin/sh"], "libraries": ["/opt/lib"]}
    with acting(permissions(sandbox=rules, services=[{"url": JUDGE}])):
        MathPython("x", sandbox=SandboxSettings(python="/bin/sh", libraries="/opt/lib"))
        MathPython("x", sandbox=SandboxSettings(tier="http", url=JUDGE))


def test_children_inherit_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WARREN_BROKER_URL", "WARREN_API_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    listed = child_variables(policy(variables=["HTTPS_PROXY"]))
    assert listed["PATH"] == os.environ["PATH"]
    assert listed["HTTPS_PROXY"] == "http://proxy"
    assert "hidden" not in listed.values()
    assert VALUE not in listed.values()
    assert "HTTPS_PROXY" not in child_variables(policy())
    trusting = child_variables(TRUSTING)
    assert trusting["AWS_SECRET_ACCESS_KEY"] == "hidden"
    assert not [name for name in trusting if name.startswith("WARREN_") and name != "WARREN_HOME"]
