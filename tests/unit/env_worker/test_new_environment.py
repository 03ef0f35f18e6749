"""What `warren env new` makes, and what it refuses."""

import ast
from pathlib import Path

import pytest

from warren.configs import read_config
from warren.errors import ConfigurationError
from warren_env_worker.authoring.new import new


def test_a_folder_holds_a_class_its_test_a_config_and_a_page(tmp_path: Path) -> None:
    new("count_down", folder=tmp_path / "made")
    made = tmp_path / "made"
    assert sorted(path.name for path in made.iterdir()) == [
        "README.md", "count_down.py", "count_down.yaml", "test_count_down.py",
    ]  # fmt: skip
    classes = [
        node.name
        for node in ast.parse((made / "count_down.py").read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    assert classes == ["CountDown"]
    ast.parse((made / "test_count_down.py").read_text())
    config = read_config(made / "count_down.yaml", ())
    assert config.environments[0].name == "count_down"
    left = [path.name for path in made.iterdir() if "$" in path.read_text()]
    assert not left, "every word was filled in"


@pytest.mark.parametrize(
    "name", ["", "Upper", "1st", "with-dash", "with.dot", "../up", "class", "a" * 65]
)
def test_names_that_no_module_can_have_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be the name of a module"):
        new(name, folder=tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_module_that_is_there_is_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a module called random already"):
        new("random", folder=tmp_path / "made")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    new("count_down", folder=tmp_path)
    (tmp_path / "count_down.py").write_text("mine")
    (tmp_path / "README.md").unlink()
    with pytest.raises(ConfigurationError, match=r"count_down\.py exists already"):
        new("count_down", folder=tmp_path)
    assert (tmp_path / "count_down.py").read_text() == "mine"
    assert not (tmp_path / "README.md").exists()
