"""An episode of a game of GEM, or of a puzzle of Reasoning Gym by GEM; in the Python where it is installed."""

import importlib
import inspect
from typing import Any

gem: Any = importlib.import_module("gem")
ENTRIES: dict[str, Any] = importlib.import_module("gem.envs.registration").ENV_REGISTRY
OVER: str = importlib.import_module("gem.utils.constants").TERMINAL_STATE
MAX_SEED = 2**31

for _name, _entry in ENTRIES.items():
    if _name.startswith(("game:", "rg:")):
        importlib.import_module(_entry.entry_point.split(":")[0])  # once, and not in each episode


class Episode:
    def make(self, env: str, arguments: dict[str, Any], seed: int) -> None:
        self._env: Any = gem.make(env, **arguments)
        self._is_puzzle = env.startswith("rg:")
        made: Any = self._env.__class__
        known = inspect.signature(made).parameters.values()
        names = [one.name for one in known if one.kind is not one.VAR_KEYWORD]
        if unknown := sorted(arguments.keys() - set(names)):
            raise TypeError(f"{env} takes no {', '.join(unknown)}; it takes {', '.join(names)}")
        self._seed = seed % MAX_SEED

    def begin(self) -> dict[str, Any]:
        observation, info = self._env.reset(seed=self._seed)
        return {"shown": text_of(observation, info)}

    def step(self, words: str) -> dict[str, Any]:
        try:
            observation, reward, done, truncated, info = self._env.step(words)
        except Exception:
            if not self._is_puzzle:
                raise
            self._check_right_answer()
            return {"shown": "", "reward": 0.0, "done": True, "truncated": False}
        is_over = bool(done)
        return {
            "shown": observation.replace(OVER, "") if is_over else text_of(observation, info),
            "reward": float(reward),
            "done": is_over,
            "truncated": bool(truncated) and not is_over,
        }

    def _check_right_answer(self) -> None:
        """An answer that a scorer stumbles over is wrong, unless it stumbles over the right one, too."""
        puzzle = self._env.data
        self._env.reward_fn(answer=puzzle["answer"], entry=puzzle)


def text_of(observation: str, info: dict[str, Any]) -> str:
    """With what GEM's own wrappers put around it: the board, say, and what is to be done."""
    parts = (info.get("prefix", ""), observation, info.get("suffix", ""))
    return "\n".join(part.strip("\n") for part in parts if part.strip())
