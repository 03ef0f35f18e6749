"""An episode of Gymnasium or MiniGrid as text; in the Python where these are installed.

What is shown: the environment's own text (`render_mode="ansi"`, with what it highlights in brackets), the grid
and the mission of MiniGrid, or else the observation as it prints. Actions are said by name or number.
"""

import contextlib
import importlib
import re
from typing import Any

gymnasium: Any = importlib.import_module("gymnasium")
with contextlib.suppress(ImportError):
    importlib.import_module("minigrid")  # registers its environments

MAX_SEED = 2**31
NAMES: dict[str, list[str]] = {
    "FrozenLake": ["left", "down", "right", "up"],
    "CliffWalking": ["up", "right", "down", "left"],
    "Taxi": ["south", "north", "east", "west", "pickup", "dropoff"],
    "Blackjack": ["stick", "hit"],
}
_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_HIGHLIGHT = re.compile(r"\x1b\[4\dm(.*?)\x1b\[0m", re.DOTALL)
_CODE = re.compile(r"\x1b\[[0-9;]*m")


class Episode:
    def make(self, env: str, arguments: dict[str, Any], seed: int, names: list[str]) -> None:
        modes: list[str] = gymnasium.spec(env).make().metadata.get("render_modes", [])
        self._prints = "ansi" in modes
        mode = "ansi" if self._prints else None
        self._env: Any = gymnasium.make(env, **{**arguments, "render_mode": mode})
        space = self._env.action_space
        if not isinstance(space, gymnasium.spaces.Discrete):
            raise TypeError(
                f"{env} has actions of {space}; only a choice among some can be said in words"
            )
        self._first = int(space.start)
        self._names = names or self._known_names(env, int(space.n))
        if len(self._names) != int(space.n):
            raise ValueError(f"{env} has {space.n} actions, and actions names {len(self._names)}")
        self._seed = seed % MAX_SEED

    def begin(self) -> dict[str, Any]:
        observation, _ = self._env.reset(seed=self._seed)
        return {"shown": self._text(observation), "actions": self._names}

    def step(self, words: str) -> dict[str, Any]:
        number = self._number(words)
        if number is None:
            told = f"There is no such action. Say one of: {', '.join(self._names)}"
            return {"shown": told, "is_valid": False}
        observation, reward, done, truncated, _ = self._env.step(number + self._first)
        return {
            "shown": self._text(observation),
            "is_valid": True,
            "reward": float(reward),
            "done": bool(done),
            "truncated": bool(truncated) and not done,
        }

    def _known_names(self, env: str, n_actions: int) -> list[str]:
        enumerated: Any = getattr(self._env.unwrapped, "actions", None)
        if members := getattr(enumerated, "__members__", None):
            return [str(name) for name in members]
        known = next((names for name, names in NAMES.items() if env.startswith(name)), None)
        return known or [str(number) for number in range(n_actions)]

    def _number(self, words: str) -> int | None:
        """Of the action that was said last: in `<action>`, else on the last line."""
        marked = _ACTION.findall(words)
        said = (marked or words.strip().splitlines() or [""])[-1].strip().strip(".`'\"*").lower()
        names = [name.lower() for name in self._names]
        if said in names:
            return names.index(said)
        numbers = [str(number) for number in range(len(names))]
        digits = said.lstrip("0") or said[:1]
        return numbers.index(digits) if digits in numbers else None

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
