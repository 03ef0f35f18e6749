"""Game classes as OpenTinker has them, hosted as environments without a change.

    warren env-worker --env gomoku=my_games:GomokuGame

Such a class has `reset(**kwargs)`, `step(action)`, `get_system_prompt()` and
`get_initial_user_message()`; its constructor's parameters are the config. `reset` gets the task, if
the config names tasks (`get_tasks(split)`, optional), else what `generate_initial_state()` returns,
if the class has it, else nothing. `step` returns an object with `observation`, `reward`, `done` and
`info`. A number in `info` is a metric; `info["truncated"]` marks the cut by a limit.

The first message is `get_user_message_with_state()` where the class has it, else the initial user
message, with the observation of `reset` behind it if there is one.

Each game has a process to itself whose global random states are seeded by the task, so that games
which use `random` can be rebuilt, and the episodes of a group begin alike.
"""

import functools
import inspect
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Protocol, TypeGuard, cast

from warren.environment import Context, Env, Isolation, StepResult

__all__ = ["Game", "GameEnv", "GameStep", "environment_of", "is_game"]


class GameStep(Protocol):
    """What `step` of a game returns."""

    observation: str
    reward: float
    done: bool
    info: Mapping[str, object]


class Game(Protocol):
    """What a game class must have."""

    def reset(self, **kwargs: Any) -> str: ...
    def step(self, action: str) -> GameStep: ...
    def get_system_prompt(self) -> str: ...
    def get_initial_user_message(self) -> str: ...


_METHODS = ("reset", "step", "get_system_prompt", "get_initial_user_message")


def is_game(found: object) -> TypeGuard[type[Game]]:
    """Whether this is a class of that shape."""
    if not isinstance(found, type) or issubclass(found, Env):
        return False
    methods: dict[str, object] = {name: getattr(found, name, None) for name in _METHODS}  # pyright: ignore[reportUnknownArgumentType]
    return all(callable(method) for method in methods.values())


class GameEnv(Env[Mapping[str, Any] | None]):
    """An environment that plays a game; see `environment_of`."""

    isolation: ClassVar[Isolation | None] = "process"
    game_class: ClassVar[type[Game]]

    def __init__(self, **config: Any) -> None:
        self.game = self.game_class(**config)

    def tasks(self, split: str) -> Sequence[Mapping[str, Any]] | None:
        get_tasks = getattr(self.game, "get_tasks", None)
        return None if get_tasks is None else get_tasks(split)

    def system_prompt(self) -> str | None:
        return self.game.get_system_prompt() or None

    def reset(self, task: Mapping[str, Any] | None, ctx: Context) -> str:
        generate = getattr(self.game, "generate_initial_state", None)
        start: object = task if task is not None else generate() if generate else None
        arguments = cast("Mapping[str, Any]", start if isinstance(start, Mapping) else {})
        shown = self.game.reset(**arguments)
        with_state = getattr(self.game, "get_user_message_with_state", None)
        if with_state is not None:
            return with_state()
        return "\n\n".join(filter(None, (self.game.get_initial_user_message(), shown)))

    def step(self, action: str) -> StepResult:
        result = self.game.step(action)
        is_cut = bool(result.info.get("truncated", False))
        return StepResult(
            observation=result.observation,
            reward=result.reward,
            done=result.done and not is_cut,
            truncated=is_cut,
            metrics=_numbers(result.info),
        )

    def close(self) -> None:
        close = getattr(self.game, "close", None)
        if close is not None:
            close()


def environment_of(game: type[Game]) -> type[GameEnv]:
    """An environment class that plays this game, with the parameters of its constructor."""

    @functools.wraps(game.__init__)
    def init(self: GameEnv, **config: Any) -> None:
        GameEnv.__init__(self, **config)

    names = {
        "__init__": init,
        "__module__": game.__module__,
        "__doc__": game.__doc__,
        "__signature__": inspect.signature(game),
        "game_class": game,
        "name": game.__name__.removesuffix("Game").lower(),
    }
    return type(game.__name__, (GameEnv,), names)


def _numbers(info: Mapping[str, object]) -> dict[str, float]:
    return {name: float(value) for name, value in info.items() if isinstance(value, Real)}
