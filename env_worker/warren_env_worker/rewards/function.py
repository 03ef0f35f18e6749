"""A reward function by its import path.

It takes by name what it needs: `response`, `messages`, `gold`, `own_reward`, `data_source`, `metrics`,
or what verl calls these: `solution_str`, `ground_truth`, `extra_info`. It returns a number, and may be
`async`. Plain functions run on the process's event loop: one that hangs is stopped by the limit of the
environment's step, together with its process.
"""

import importlib
import inspect
import math
import traceback
from collections.abc import Callable, Mapping
from numbers import Real

from warren.environment import ConfigError
from warren_env_worker.reach.secrets import shortened, told
from warren_env_worker.rewards.scored import RewardFailed, Scored

MAX_REASON_CHARS = 300


class RewardFunction:
    def __init__(self, path: str, *, is_own: bool = False) -> None:
        """With `is_own`, only a function that its module defines for others: no class, no `_name`.

        Raises `ConfigError` for a function that is not there, or asks for what there is not.
        """
        self._path = path
        self._function = _found(path)
        if is_own and not _is_own(self._function, path):
            raise ConfigError(f"{path} is no function for others that this module defines")
        parameters = inspect.signature(self._function).parameters.values()
        self._takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self._names = {
            p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        }
        may_take = offered(Scored((), "", None, 0.0))
        missing = [p.name for p in parameters if p.name in self._names and p.default is p.empty]
        unknown = [name for name in missing if name not in may_take]
        if unknown:
            raise ConfigError(
                f"{path} asks for {', '.join(unknown)}; a reward function may take {', '.join(may_take)}"
            )

    async def __call__(self, scored: Scored) -> float:
        """Raises `RewardFailed`, naming file and line, for whatever goes wrong in the function."""
        given = offered(scored)
        taken = given if self._takes_all else {n: v for n, v in given.items() if n in self._names}
        try:
            value = self._function(**taken)
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:
            raise RewardFailed(f"{self._path}: {_in_a_line(error)}") from error
        return finite(value, self._path)


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


def _is_own(function: Callable[..., object], path: str) -> bool:
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


def _in_a_line(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = shortened(" ".join(told(str(error)).split()), MAX_REASON_CHARS)
    return f"{type(error).__name__}: {text} ({frame.filename}:{frame.lineno})"
