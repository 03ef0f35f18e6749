"""An environment whose actions have a type.

Invariants: `act` gets values of the type alone, and words that can't be read never raise: they are answered with a
sentence, or end the episode once there were too many, and count in the metric `unreadable`. What the policy sampled is
never rewritten.
"""

import inspect
from abc import abstractmethod
from collections.abc import Awaitable
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from typing_extensions import get_original_bases

from warren.actions.awaitables import then
from warren.actions.reader import ActionReader, ActionT, Unreadable
from warren.environment import Env, StepResult, TaskT


class ActionEnv(Env[TaskT], Generic[ActionT, TaskT]):
    """`ActionEnv[Move]`, or `ActionEnv[Move, Task]` for one with tasks. See `warren.actions` for a whole example.

    Metric of every episode: `unreadable`, the share of its actions that could not be read.
    """

    action_type: ClassVar[Any] = None
    """What `act` gets; taken from the brackets behind `ActionEnv`, or behind a class of yours between, unless it is set."""
    action_pattern: ClassVar[str | None] = None
    """A regular expression for the words: its named groups are the fields, its last match counts. None: JSON for
    a type with fields, the bare words for a text, a number or a choice."""
    max_unreadable: ClassVar[int] = 8
    """So many actions of an episode that can't be read are answered with a sentence; the next one ends it."""
    unreadable_reward: ClassVar[float] = 0.0
    """Of each turn whose words can't be read."""
    tells_form: ClassVar[bool] = True
    """Whether the system message says how to answer: the choices, or the JSON schema of the type."""
    _n_actions: tuple[int, int] = (0, 0)
    """So far, and how many of them could not be read."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        told = [_told_type(base) for base in get_original_bases(cls)]
        known = [each for each in told if each is not None and not _is_open(each)]
        if known and "action_type" not in vars(cls):
            cls.action_type = known[-1]
        if cls.action_type is not None:
            cls.reader()

    @abstractmethod
    def act(self, action: ActionT) -> StepResult | Awaitable[StepResult]:
        """What follows from an action. Never called again after `done`."""

    def unreadable(self, words: str, reason: str) -> StepResult | Awaitable[StepResult]:
        """What follows from words that can't be read; `reason` says why, for the policy."""
        is_over = self._n_actions[1] > self.max_unreadable
        told = "" if is_over else f"That can't be read as an action: {reason}"
        return StepResult(told, reward=self.unreadable_reward, done=is_over)

    def step(self, action: str) -> StepResult | Awaitable[StepResult]:
        """Read the words, and take the action that they are."""
        read = self.reader().read(action)
        is_unreadable = isinstance(read, Unreadable)
        n_actions, n_unreadable = self._n_actions
        self._n_actions = n_actions + 1, n_unreadable + is_unreadable
        result = self.unreadable(action, read.reason) if is_unreadable else self.act(read.action)
        return then(result, self._counted)

    def system_message(self) -> str | None:
        """The system prompt, with the form of an action behind it."""
        prompt = self.system_prompt()
        form = self.reader().told() if self.tells_form else None
        return "\n\n".join(part for part in (prompt, form) if part) or None

    def written(self, action: ActionT) -> str:
        """Words that are read as this action, for `demonstrate`."""
        return self.reader().written(action)

    @classmethod
    def reader(cls) -> ActionReader[ActionT]:
        if cls.action_type is None:
            raise TypeError(f"{cls.__name__} does not say what an action is: ActionEnv[Move]")
        return _reader(cls.action_type, cls.action_pattern)

    def _counted(self, result: StepResult) -> StepResult:
        n_actions, n_unreadable = self._n_actions
        return replace(result, metrics={"unreadable": n_unreadable / n_actions, **result.metrics})


@cache
def _reader(action_type: Any, pattern: str | None) -> ActionReader[Any]:
    return ActionReader(action_type, pattern)


def _told_type(base: Any) -> Any:
    """What stands for `ActionT` in the brackets of a base, whatever its own bases call it; None where nothing does."""
    origin, told = get_origin(base), get_args(base)
    if origin is ActionEnv:
        return told[0]
    is_between = isinstance(origin, type) and issubclass(origin, ActionEnv)
    return _told_through(origin, told) if is_between else None


def _told_through(origin: Any, told: tuple[Any, ...]) -> Any:
    if origin.action_type is not None:
        return origin.action_type
    values = dict(zip(origin.__parameters__, told, strict=False))
    types = (_told_type(_filled(each, values)) for each in get_original_bases(origin))
    return next((each for each in types if each is not None), None)


def _filled(base: Any, values: dict[Any, Any]) -> Any:
    """With these values in the place of its variables; a base without brackets has none."""
    if get_origin(base) is None or get_origin(base) is Generic or not base.__parameters__:
        return base
    return base[tuple(values.get(variable, variable) for variable in base.__parameters__)]


def _is_open(told: Any) -> bool:
    """Whether a class further down says what it is."""
    is_of_variables = get_origin(told) is not None and bool(getattr(told, "__parameters__", ()))
    return isinstance(told, TypeVar) or is_of_variables


def has_async_actions(environment: type[Env[Any]]) -> bool:
    """Whether what follows from an action may have to be awaited."""
    methods = [getattr(environment, name, None) for name in ("act", "unreadable")]
    is_typed = issubclass(environment, ActionEnv)
    return is_typed and any(inspect.iscoroutinefunction(method) for method in methods)
