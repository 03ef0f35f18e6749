"""Arguments of verifiers and Inspect for one split: a name that is none, or a split that was forgotten, is told."""

from collections.abc import Callable
from functools import partial

import pytest

from warren.environment import ConfigError
from warren_env_worker.environments.inspect_ai.environment import InspectAi
from warren_env_worker.environments.plain_arguments import Arguments
from warren_env_worker.environments.verifiers.environment import Verifiers, VerifiersV0
from warren_env_worker.permissions.permissions import TRUSTED, acting


@pytest.mark.parametrize(
    "made",
    [
        partial(Verifiers, "mine"),
        partial(VerifiersV0, "mine"),
        partial(InspectAi, "mine/task"),
    ],
)
def test_a_split_that_is_none_is_refused(made: Callable[..., object]) -> None:
    with acting(TRUSTED):
        made(split_arguments={"test": {"level": 4}})
        with pytest.raises(ConfigError, match=r"^split_arguments\.tset: expected .* test$"):
            made(split_arguments={"tset": {"level": 4}})


def test_those_of_a_split_hold_in_it_alone_and_before_those_of_every_split() -> None:
    arguments = Arguments({"level": 3, "n": 1}, {"test": {"level": 4}})
    assert arguments.of("train") == {"level": 3, "n": 1}
    assert arguments.of("test") == {"level": 4, "n": 1}
    assert Arguments({"level": 3}, None).of("any") == {"level": 3}


def test_a_split_that_is_played_and_was_forgotten_is_told() -> None:
    arguments = Arguments(None, {"validation": {"level": 4}})
    with pytest.raises(ConfigError, match=r"^split_arguments: .* test, .*; add test: {}"):
        arguments.of("test")
    assert Arguments(None, {"validation": {"level": 4}, "test": {}}).of("test") == {}
