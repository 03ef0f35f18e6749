"""Configs from files: every mistake is a sentence with its place."""

from pathlib import Path

import pytest

from warren.configs import read_config, to_config
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
