"""Environments of Gymnasium and MiniGrid: what they show is text, and the policy says an action by its name or in numbers.

    environments:
      - name: gymnasium
        config: {env: FrozenLake-v1, arguments: {is_slippery: false}}

The package runs in a virtual environment of its own (`warren env install gymnasium`), each episode in a process of
its own (`warren_env_worker.foreign`). The task's seed is the environment's: the same task begins alike and, with
the same actions, goes on alike.

Metrics: `steps` that were taken; `invalid_actions`, which the policy is told of and which change nothing.
"""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from warren.environment import ConfigError, Context, Limits
from warren_env_worker.environments.gymnasium.spaces import SPACE, Choice, Space
from warren_env_worker.environments.text.environment import TextEnv
from warren_env_worker.environments.text.settings import TextSettings

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,127}(/[\w.-]{1,127})?", re.ASCII)
"""No `module:Name`, which would import the module."""


class Gymnasium(TextEnv):
    name = "gymnasium"
    version = "1"
    limits = Limits(reset_s=120.0, step_s=60.0)
    form = "marked"
    counted = ("steps", "invalid_actions")
    tells_admissible = True

    def __init__(
        self,
        env: str,
        arguments: Mapping[str, JsonValue] | None = None,
        actions: tuple[str, ...] = (),
        system_prompt: str | None = None,
        text: TextSettings | None = None,
    ) -> None:
        """The environment's id, and what `gymnasium.make` gets besides. `actions` names the actions in their
        order, where Warren or the package has no better names than numbers. `system_prompt` goes before the
        sentence that says how to act.
        """
        if not _ID.fullmatch(env):
            raise ConfigError("env: expected the id of an environment, such as FrozenLake-v1")
        if "render_mode" in (arguments or {}):
            raise ConfigError("arguments.render_mode: what is shown is text; leave it out")
        self.env = env
        self.arguments = dict(arguments or {})
        self.actions = list(actions)
        super().__init__(text, system_prompt)

    def made(self, task: None, ctx: Context) -> Mapping[str, object]:
        return {
            "env": self.env,
            "arguments": self.arguments,
            "seed": ctx.seed,
            "names": self.actions,
        }

    def begun(self, answer: Mapping[str, Any]) -> None:
        self.space: Space = SPACE.validate_python(answer["space"])
        self.blank = self.space.blank()
        if self.wants_admissible and not isinstance(self.space, Choice):
            raise ConfigError(
                "text.template: what is {admissible} is told where an action is one of some"
            )

    def how(self) -> str:
        return f"{super().how()} {self.space.told()}"

    def read(self, said: str) -> object:
        return self.space.read(said)
