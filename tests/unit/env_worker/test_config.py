"""Configs against constructors: what is wrong, in one line that helps."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from warren.environment import Context, Env, StepResult
from warren_env_worker.host.environment_class.config import ConfigSchema
from warren_env_worker.host.refusal import Refusal
from warren_schemas.episode import FailureKind


class Typed(Env):
    def __init__(self, size: int, mode: Literal["easy", "hard"] = "easy", scale: float = 1.0):
        self.size, self.mode, self.scale = size, mode, scale

    def reset(self, task: None, ctx: Context) -> str:
        return "?"

    def step(self, action: str) -> StepResult:
        return StepResult(done=True)


class Open(Typed):
    def __init__(self, size: int = 1, **rest: Any) -> None:
        super().__init__(size)


class Bounded(Open):
    def __init__(self, size: Annotated[int, Field(ge=1, le=9)] = 1) -> None:
        super().__init__(size)


class Bare(Env):
    def reset(self, task: None, ctx: Context) -> str:
        return "?"

    def step(self, action: str) -> StepResult:
        return StepResult(done=True)


def reason(environment: type[Env[Any]], config: dict[str, object]) -> str:
    with pytest.raises(Refusal) as caught:
        ConfigSchema(environment).check(config)
    assert caught.value.kind is FailureKind.ENVIRONMENT_CONFIG
    assert not caught.value.is_retryable
    return caught.value.reason


def test_what_fits_comes_back_with_the_right_types() -> None:
    assert ConfigSchema(Typed).check({"size": 3, "scale": 2}) == {"size": 3, "scale": 2.0}


def test_bounds_of_a_parameter_hold() -> None:
    assert ConfigSchema(Bounded).check({"size": 9}) == {"size": 9}
    assert reason(Bounded, {"size": 10}).startswith("size: ")


def test_an_unknown_key_is_answered_with_the_nearest() -> None:
    assert reason(Typed, {"size": 1, "moed": "easy"}) == "moed: unknown key; did you mean mode?"


def test_without_a_near_one_all_keys_are_named() -> None:
    assert reason(Typed, {"size": 1, "xyz": 1}) == "xyz: unknown key; valid keys: size, mode, scale"
    assert reason(Bare, {"xyz": 1}) == "xyz: unknown key; valid keys: none"


def test_wrong_types_and_missing_keys_are_named() -> None:
    assert reason(Typed, {}) == "size: missing"
    assert reason(Typed, {"size": "many"}).startswith("size: ")
    assert reason(Typed, {"size": 1, "mode": "odd"}).startswith("mode: ")


def test_a_constructor_that_takes_all_gets_all() -> None:
    assert ConfigSchema(Open).check({"size": 2, "colour": "red"}) == {"size": 2, "colour": "red"}
