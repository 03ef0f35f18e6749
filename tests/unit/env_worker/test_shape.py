"""What is told of an environment without running it."""

import sys
from pathlib import Path

import pytest

from warren_env_worker.shape import shape_of
from warren_schemas.control import EnvironmentShape

ENVIRONMENTS = "warren_env_worker.environments"


def test_keys_with_and_without_a_default() -> None:
    guess = shape_of("guess", f"{ENVIRONMENTS}.guess:Guess")
    keys = ("low", "high", "guesses")
    assert guess == EnvironmentShape(name="guess", keys=keys, has_levels=False)
    assert shape_of("math", f"{ENVIRONMENTS}.math:Math").required == ()
    ors = shape_of("ors", f"{ENVIRONMENTS}.ors.environment:Ors")
    assert ors.required == ("url", "environment")


def test_splits_that_are_written_out() -> None:
    assert shape_of("a", f"{ENVIRONMENTS}.arithmetic:Arithmetic").splits == ("train", "test")


@pytest.mark.parametrize(
    ("source", "has_levels"),
    [
        ("class E(Env): pass", False),
        ("class E(Env[int]):\n    has_levels = True", True),
        ("class E(Env):\n    has_levels: ClassVar[bool] = True", True),
        ("class B(Env):\n    has_levels = True\nclass E(B): pass", True),
        ("class B(Env):\n    has_levels = True\nclass E(B):\n    has_levels = False", False),
        ("class E(Env):\n    has_levels = N > 1", None),
        ("class E(Elsewhere): pass", None),
    ],
)
def test_whether_there_are_levels(
    source: str, has_levels: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "levelled_module.py").write_text(source)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert shape_of("e", "levelled_module:E").has_levels is has_levels


def test_the_built_in_environment_with_levels() -> None:
    assert shape_of("http", f"{ENVIRONMENTS}.http.environment:Http").has_levels


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        ("class E(we.Env):\n    pass", ()),
        ("class E(Env[int]):\n    def __init__(self, *, a, b=1): pass", ("a", "b")),
        ("class B(Env):\n    def __init__(self, a): pass\nclass E(B): pass", ("a",)),
        ("class E(Env):\n    def __init__(self, a, **rest): pass", None),
        ("class E(Elsewhere):\n    pass", None),
        ("@dataclass\nclass E(Env):\n    a: int = 1", None),
        ("E = make()", None),
        ("class E(:", None),
        pytest.param(f"x = {'+'.join('1' * 100_000)}\nclass E(Env): pass", None, id="deep tree"),
        pytest.param(f"x = {'-' * 100_000}1\nclass E(Env): pass", None, id="deep for the parser"),
    ],
)
def test_what_can_not_be_told_is_left_open(
    source: str, keys: tuple[str, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shaped_module.py").write_text(f"raise SystemExit('it was run')\n{source}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert shape_of("e", "shaped_module:E").keys == keys
    assert "shaped_module" not in sys.modules


def test_a_module_that_is_not_there() -> None:
    assert shape_of("e", "no.such.module:E") == EnvironmentShape(name="e")
