"""Environments of Gymnasium, one of each space of actions, that show the action they got; for the package's own Python."""

import importlib
from typing import Any

gymnasium: Any = importlib.import_module("gymnasium")
numpy: Any = importlib.import_module("numpy")
spaces: Any = gymnasium.spaces
SPACES: dict[str, Any] = {
    "discrete": spaces.Discrete(3, start=5),
    "multi_discrete": spaces.MultiDiscrete([2, 3], start=[0, 1]),
    "multi_binary": spaces.MultiBinary((2, 2)),
    "box": spaces.Box(numpy.array([-0.1, -numpy.inf], numpy.float32), numpy.float32(0.7)),
    "pixels": spaces.Box(0, 255, (2,), numpy.uint8),
    "text": spaces.Text(4, charset="ab "),
    "tuple": spaces.Tuple([spaces.Discrete(2)]),
}


class Told(gymnasium.Env):
    def __init__(self, space: str) -> None:
        self.action_space = SPACES[space]
        self.observation_space = spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return "begun", {}

    def step(self, action: Any) -> Any:
        told = action.tolist() if hasattr(action, "tolist") else action
        return f"{told} {self.action_space.contains(action)}", 0.0, False, False, {}


gymnasium.register("ToldActions-v0", entry_point="told_actions:Told", disable_env_checker=True)
