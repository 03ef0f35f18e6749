"""An episode of Gymnasium or MiniGrid as text; in the Python where these are installed.

What is shown: the environment's own text (`render_mode="ansi"`, with what it highlights in brackets), the grid
and the mission of MiniGrid, or else the observation as it prints. What an action is, is told in JSON at the beginning.
"""

import contextlib
import importlib
import math
import re
from typing import Any

gymnasium: Any = importlib.import_module("gymnasium")
numpy: Any = importlib.import_module("numpy")
with contextlib.suppress(ImportError):
    importlib.import_module("minigrid")  # registers its environments

MAX_SEED = 2**31
MAX_NUMBERS = 1000
"""Of an action."""
NAMES: dict[str, list[str]] = {
    "FrozenLake": ["left", "down", "right", "up"],
    "CliffWalking": ["up", "right", "down", "left"],
    "Taxi": ["south", "north", "east", "west", "pickup", "dropoff"],
    "Blackjack": ["stick", "hit"],
}
_HIGHLIGHT = re.compile(r"\x1b\[4\dm(.*?)\x1b\[0m", re.DOTALL)
_CODE = re.compile(r"\x1b\[[0-9;]*m")


class Episode:
    def make(self, env: str, arguments: dict[str, Any], seed: int, names: list[str]) -> None:
        modes: list[str] = gymnasium.spec(env).make(**arguments).metadata.get("render_modes", [])
        self._prints = "ansi" in modes
        shown = {"render_mode": "ansi"} if self._prints else {}
        self._env: Any = gymnasium.make(env, **arguments, **shown)
        self._seed = seed % MAX_SEED
        self._space: Any = self._env.action_space
        self._told = self._told_space(env, names)

    def begin(self) -> dict[str, Any]:
        observation, info = self._env.reset(seed=self._seed)
        return {**self._shown(observation, info), "space": self._told}

    def step(self, action: Any) -> dict[str, Any]:
        observation, reward, done, truncated, info = self._env.step(self._action(action))
        return {
            **self._shown(observation, info),
            "reward": float(reward),
            "done": bool(done),
            "truncated": bool(truncated) and not done,
        }

    def _told_space(self, env: str, names: list[str]) -> dict[str, Any]:
        spaces, space = gymnasium.spaces, self._space
        if isinstance(space, spaces.Discrete):
            return {"kind": "choice", "names": self._names(env, int(space.n), names)}
        if names:
            raise ValueError(f"{env} has actions of {space}, which actions can't name")
        if isinstance(space, spaces.Text):
            return {
                "kind": "words",
                "shortest": space.min_length,
                "longest": space.max_length,
                "characters": space.characters,
            }
        bounds = bounds_of(space)
        if bounds is None or not 0 < bounds[0].size <= MAX_NUMBERS:
            raise TypeError(
                f"{env} has actions of {space}; only a choice, up to {MAX_NUMBERS} numbers and a text can be said"
            )
        low, high = (told(bound) for bound in bounds)
        is_whole = not numpy.issubdtype(space.dtype, numpy.floating)
        return {"kind": "numbers", "low": low, "high": high, "is_whole": is_whole}

    def _action(self, said: Any) -> Any:
        if isinstance(self._space, gymnasium.spaces.Discrete):
            return int(said) + int(self._space.start)
        if isinstance(self._space, gymnasium.spaces.Text):
            return said
        return numpy.array(said).astype(self._space.dtype).reshape(self._space.shape)

    def _names(self, env: str, n_actions: int, given: list[str]) -> list[str]:
        names = given or self._known_names(env, n_actions)
        if len(names) != n_actions:
            raise ValueError(f"{env} has {n_actions} actions, and actions names {len(names)}")
        return names

    def _known_names(self, env: str, n_actions: int) -> list[str]:
        enumerated: Any = getattr(self._env.unwrapped, "actions", None)
        if members := getattr(enumerated, "__members__", None):
            return [str(name) for name in members]
        known = next((names for name, names in NAMES.items() if env.startswith(name)), None)
        return known or [str(number) for number in range(n_actions)]

    def _shown(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        """With those of the actions that would do something, where there are some to choose from."""
        names: list[str] = self._told.get("names", [])
        mask = info.get("action_mask")
        if mask is not None:
            names = [name for name, does in zip(names, mask, strict=True) if does]
        return {"shown": self._text(observation), "admissible": names}

    def _text(self, observation: Any) -> str:
        grid = getattr(self._env.unwrapped, "pprint_grid", None)
        if self._prints:
            shown = str(self._env.render())
        elif grid is not None:
            shown = f"{grid()}\n\nMission: {observation['mission']}"
        else:
            shown = str(observation)
        marked = _HIGHLIGHT.sub(lambda found: f"[{found[1]}]", shown)
        return _CODE.sub("", marked).strip("\n") or "(nothing)"


def bounds_of(space: Any) -> Any:
    """The least and the most of each of its numbers; None of another space."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, spaces.MultiBinary):
        return numpy.zeros(space.shape, int), numpy.ones(space.shape, int)
    return (space.low, space.high) if isinstance(space, spaces.Box) else None


def told(bound: Any) -> list[float | None]:
    """As they print, so that 0.1 is no less than a 0.1 of fewer digits; None for none."""
    numbers = [float(str(number)) for number in numpy.asarray(bound).ravel()]
    return [number if math.isfinite(number) else None for number in numbers]
