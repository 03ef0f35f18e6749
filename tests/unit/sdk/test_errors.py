"""The error tree: every one survives a pickle, and reads as message, details, next step."""

import pickle
from pathlib import Path

import pytest

from warren import errors
from warren.connection.answers import problem_error
from warren.errors import WarrenError
from warren_schemas.http import Problem

TREE = [
    error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, WarrenError)
]


@pytest.mark.parametrize("kind", TREE)
def test_survives_a_pickle(kind: type[WarrenError]) -> None:
    error = kind("What was wrong", details=["here"], hint="Do this.")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.message, copy.details, copy.hint) == ("What was wrong", ("here",), "Do this.")
    assert str(copy) == "What was wrong\n  here\nDo this."


def test_fields_survive_a_pickle() -> None:
    error = errors.RunFailed("It failed")
    error.run = "run_1"
    assert pickle.loads(pickle.dumps(error)).run == "run_1"


def test_builtin_kinds_catch_them() -> None:
    assert issubclass(errors.ConfigurationError, ValueError)
    assert issubclass(errors.GatewayUnreachable, ConnectionError)
    assert issubclass(errors.NotFound, LookupError)


def test_only_what_time_may_mend_is_retryable() -> None:
    assert {kind for kind in TREE if kind.retryable} == {
        errors.GatewayUnreachable,
        errors.GatewayBusy,
    }


def test_an_unknown_key_is_told_where_this_machine_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_HOME", str(tmp_path))
    unknown = Problem(code="unauthorized", message="This API key is not known here.")
    error = problem_error("http://here", 401, {}, unknown.model_dump_json().encode())
    assert error.hint is not None
    assert f"{tmp_path / 'api-key'}" in error.hint
