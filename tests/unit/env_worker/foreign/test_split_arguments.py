"""Arguments of verifiers and Inspect for one split: a misspelt name, or a split that was forgotten, is told."""

import pytest

from warren.environment import ConfigError
from warren_env_worker.environments.plain_arguments import Arguments


def test_those_of_a_split_hold_in_it_alone_and_before_those_of_every_split() -> None:
    arguments = Arguments({"level": 3, "n": 1}, {"test": {"level": 4}})
    assert arguments.of("train") == {"level": 3, "n": 1}
    assert arguments.of("test") == {"level": 4, "n": 1}
    assert Arguments({"level": 3}, None).of("any") == {"level": 3}


def test_a_split_that_is_played_and_has_none_is_told() -> None:
    arguments = Arguments(None, {"tset": {"level": 4}})
    with pytest.raises(
        ConfigError, match=r"^split_arguments holds for tset, and test is played; .* add test: {}"
    ):
        arguments.of("test")
    assert Arguments(None, {"dev": {"level": 4}, "test": {}}).of("test") == {}


def test_tasks_that_only_arguments_tell_apart_are_those_of_train_where_the_config_says_so() -> None:
    unnamed, named = Arguments({"level": 3}, None), Arguments(None, {"test": {}})
    with pytest.raises(ConfigError, match=r"^test has the same tasks as train.* test: {} there"):
        unnamed.require_told_apart("test")
    for arguments, split in ((unnamed, "train"), (named, "test")):
        arguments.require_told_apart(split)


def test_a_split_has_its_own_where_there_is_one_at_least() -> None:
    arguments = Arguments({"level": 3}, {"test": {"level": 4}, "dev": {}})
    assert [arguments.has_own(split) for split in ("train", "dev", "test")] == [False, False, True]
