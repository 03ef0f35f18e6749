"""Secrets of a run as environment variables of an episode's process: what can't be given is refused."""

import pytest

from warren.environment import ConfigError
from warren_env_worker.foreign.variables import PLACEHOLDER, SecretVariables


def test_variables_have_the_values_of_the_secrets_that_they_name() -> None:
    variables = SecretVariables({"A_KEY": "A", "SAME": "A", "B_KEY": "B"}, frozenset())
    told = variables.of({"A": "one", "B": "two"})
    assert told == {"A_KEY": "one", "SAME": "one", "B_KEY": "two"}
    assert variables.placeholders == dict.fromkeys(told, PLACEHOLDER)
    assert (
        SecretVariables(None, frozenset()).of({"A": "one"}) == {}
    )  # a run's go to each of its environments


def test_a_secret_that_is_not_there_and_a_variable_of_the_program_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^variables: A is none of the environment's `secrets`"):
        SecretVariables({"A_KEY": "A"}, frozenset()).of({})
    with pytest.raises(ConfigError, match=r"^variables: OWN is set for each episode"):
        SecretVariables({"OWN": "A"}, {"OWN"})
