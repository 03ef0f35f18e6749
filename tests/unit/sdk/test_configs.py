"""Configs from files: every mistake is a sentence with its place."""

from pathlib import Path

import pytest

from warren.configs import read_changes, read_config, to_config
from warren.errors import ConfigurationError

GOOD = "model: {base: warren/tiny}\nenvironments: [{name: guess}]\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "guess.yaml"
    file.write_text(GOOD)
    return file


def test_overrides_go_over_the_file(path: Path) -> None:
    config = read_config(path, ["optimizer.learning_rate=1e-3", "name=mine", "seed=7"])
    assert (config.optimizer.learning_rate, config.name, config.seed) == (1e-3, "mine", 7)


@pytest.mark.parametrize(
    ("text", "overrides", "told"),
    [
        (GOOD + "algorithm: {group_sise: 4}", [], "group_size"),
        (GOOD + "seed: many", [], "seed"),
        (GOOD + "seed: [1", [], "line"),
        ("- just\n- a list\n", [], ""),
        ("", [], "model"),
        (GOOD, ["optimiser.learning_rate=1"], "optimizer"),
        (GOOD, ["nonsense"], "nonsense"),
    ],
)
def test_mistakes_are_told(path: Path, text: str, overrides: list[str], told: str) -> None:
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_config(path, overrides)
    assert str(path) in caught.value.message
    assert caught.value.details
    assert told in "\n".join(caught.value.details)


def test_a_missing_file_names_the_nearest_one(path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"Did you mean .*guess\.yaml"):
        read_config(path.with_name("gues.yaml"))


def test_a_missing_folder() -> None:
    with pytest.raises(ConfigurationError, match="not there either"):
        read_config(Path("/nowhere/at/all.yaml"))


def test_a_folder_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="directory"):
        read_config(tmp_path)


def test_bytes_are_no_config(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="UTF-8"):
        read_config(path)


def test_a_dict_is_held_against_the_same_schema() -> None:
    with pytest.raises(ConfigurationError, match="did you mean environments"):
        to_config({"model": {"base": "m"}, "environment": []})


def test_a_dict_may_name_a_kind_as_a_file_may(path: Path) -> None:
    path.write_text(f"{GOOD}algorithm: {{loss: cispo}}\n")
    config = {
        "model": {"base": "warren/tiny"},
        "environments": [{"name": "guess"}],
        "algorithm": {"loss": "cispo"},
    }
    assert to_config(config) == read_config(path)


def test_changes_of_a_run_are_read_like_overrides() -> None:
    change = read_changes(["limits.steps=400", "limits.stop_on=[exploding]", "priority=-10"])
    assert change.priority == -10
    assert change.limits == {"steps": 400, "stop_on": ["exploding"]}
    assert read_changes(["limits.stop_at_reward=null"]).limits == {"stop_at_reward": None}


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ([], "give `limits`, `priority` or `on_disconnect`"),
        (["steps=400"], "steps: unknown key"),
        (["limits=5"], "limits: "),
        (["priority=high"], "priority: "),
        (["priority"], "write KEY=VALUE"),
    ],
)
def test_changes_that_cannot_be_read_are_told(written: list[str], told: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_changes(written)
    assert told in "\n".join(raised.value.details)
    assert "limits.steps=400" in (raised.value.hint or "")


TOML = """
name = "guessing"
[model]
base = "warren/tiny"
[[environments]]
name = "guess"
config = { high = 9 }
[optimizer]
learning_rate = 1e-4
[algorithm]
loss = "cispo"
"""
SAME = """
name: guessing
model: {base: warren/tiny}
environments: [{name: guess, config: {high: 9}}]
optimizer: {learning_rate: 1e-4}
algorithm: {loss: cispo}
"""


def test_toml_says_the_same_as_yaml(path: Path) -> None:
    path.write_text(SAME)
    toml = path.with_suffix(".toml")
    toml.write_text(TOML)
    assert read_config(toml, ["seed=7"]) == read_config(path, ["seed=7"])
    assert to_config(toml) == to_config(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seed = \n", "line 1, column 8"),
        ("seed = 1\nseed = 2\n", "line 2"),
        ("seed = [1,\n", "at the end"),
        (TOML.replace("learning_rate", "learning_rat"), "optimizer.learning_rat: unknown key"),
        (TOML.replace("1e-4", "'fast'"), "optimizer.learning_rate: expected a number, got 'fast'"),
        (TOML.replace("1e-4", "nan"), "optimizer.learning_rate: expected"),
        ("", "model: missing"),
    ],
)
def test_mistakes_in_toml_are_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "guess.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_config(path)
    assert told in "\n".join(caught.value.details)
