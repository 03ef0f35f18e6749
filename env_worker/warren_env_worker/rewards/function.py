"""A reward function by its import path.

It takes by name what it needs: `response`, `messages`, `gold`, `own_reward`, `data_source`, `metrics`,
or what verl calls these: `solution_str`, `ground_truth`, `extra_info`; one that compares a group takes `transcripts`,
`responses` or `rewards` of its episodes. It returns a number, or one for each episode, and may be
`async`. Plain functions run on the process's event loop: one that hangs is stopped by the limit of the
environment's step, together with its process.
"""

import importlib
import inspect
import math
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Real
from typing import cast

from warren.environment import ConfigError
from warren_env_worker.permissions.secrets import shortened, without_run_secrets
from warren_env_worker.rewards.scored import RewardFailed, Scored, ScoredGroup

MAX_REASON_CHARS = 300


class NamedFunction:
    """A function that takes by name some of what is offered."""

    def __init__(self, path: str, may_take: Collection[str], *, only_public: bool = False) -> None:
        """With `only_public`, only a function that its module defines for others: no class, no `_name`.

        Raises `ConfigError` for a function that is not there, or asks for what there is not.
        """
        self._path = path
        self._function = _found(path)
        if only_public and not _is_public(self._function, path):
            raise ConfigError(f"{path} is no function for others that this module defines")
        parameters = inspect.signature(self._function).parameters.values()
        self._takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self._names = {
            p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        }
        missing = [p.name for p in parameters if p.name in self._names and p.default is p.empty]
        unknown = [name for name in missing if name not in may_take]
        if unknown:
            raise ConfigError(
                f"{path} asks for {', '.join(unknown)}; a reward function may take {', '.join(may_take)}"
            )

    async def call(self, given: Mapping[str, object]) -> object:
        """Raises `RewardFailed`, naming file and line, for whatever goes wrong in the function."""
        taken = given if self._takes_all else {n: v for n, v in given.items() if n in self._names}
        try:
            value = self._function(**taken)
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            raise RewardFailed(f"{self._path}: {_in_a_line(error)}") from error
        return value


class RewardFunction:
    def __init__(self, path: str, *, only_public: bool = False) -> None:
        """See `NamedFunction`."""
        self._path = path
        self._function = NamedFunction(
            path, offered(Scored((), "", None, 0.0)).keys(), only_public=only_public
        )

    async def __call__(self, scored: Scored) -> float:
        """Raises `RewardFailed`."""
        return finite(await self._function.call(offered(scored)), self._path)


class GroupFunction:
    def __init__(self, path: str, *, only_public: bool = False) -> None:
        """See `NamedFunction`."""
        self._path = path
        self._function = NamedFunction(
            path, of_group(ScoredGroup(())).keys(), only_public=only_public
        )

    async def __call__(self, group: ScoredGroup) -> list[float]:
        """A reward for each. Raises `RewardFailed`."""
        given = await self._function.call(of_group(group))
        n = len(group.transcripts)
        if not isinstance(given, Sequence) or len(cast("Sequence[object]", given)) != n:
            raise RewardFailed(
                f"{self._path} did not give a list of {n} numbers, one for each episode"
            )
        return [finite(each, self._path) for each in cast("Sequence[object]", given)]


def finite(value: object, where: str) -> float:
    """The number. Raises `RewardFailed` for what is none."""
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RewardFailed(
            f"{where} gave a value of type {type(value).__name__} that is no finite number"
        )
    return number


def _found(path: str) -> Callable[..., object]:
    module_name, _, names = path.partition(":")
    try:
        found: object = importlib.import_module(module_name)
        for name in names.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"there is no reward function {path} that can be imported") from error
    if not callable(found) or inspect.isbuiltin(found):  # such as `os:fork`, which takes nothing
        raise ConfigError(f"{path} is no function written in Python")
    return found


def _is_public(function: Callable[..., object], path: str) -> bool:
    module_name, _, name = path.partition(":")
    is_defined_there = inspect.isfunction(function) and function.__module__ == module_name
    return is_defined_there and not name.startswith("_")


def offered(scored: Scored) -> Mapping[str, object]:
    """What a reward function may take, by name."""
    return {
        "response": scored.response,
        "messages": scored.messages,
        "gold": scored.gold,
        "own_reward": scored.own_reward,
        "data_source": scored.data_source,
        "metrics": scored.metrics,
        "solution_str": scored.response,
        "ground_truth": scored.gold,
        "extra_info": {},
    }


def of_group(group: ScoredGroup) -> Mapping[str, object]:
    """What a function that compares a group may take, by name."""
    return {
        "transcripts": group.transcripts,
        "responses": [each.response for each in group.transcripts],
        "rewards": [each.reward for each in group.transcripts],
    }


def _in_a_line(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = shortened(" ".join(without_run_secrets(str(error)).split()), MAX_REASON_CHARS)
    return f"{type(error).__name__}: {text} ({frame.filename}:{frame.lineno})"
