"""Environments of Gymnasium and MiniGrid: what they show is text, and the policy says an action by its name.

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

from pydantic import JsonValue

from warren.environment import ConfigError, Context, Env, Limits, StepResult
from warren_env_worker.foreign.episode import ForeignEpisode
from warren_env_worker.foreign.package import package

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,127}(/[\w.-]{1,127})?", re.ASCII)
"""No `module:Name`, which would import the module."""
_HOW = "Say one action in each turn, as <action>NAME</action>. Actions: {}."


class Gymnasium(Env):
    name = "gymnasium"
    version = "1"
    limits = Limits(reset_s=120.0, step_s=60.0)

    def __init__(
        self,
        env: str,
        arguments: Mapping[str, JsonValue] | None = None,
        actions: tuple[str, ...] = (),
        system_prompt: str | None = None,
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
        self.preface = system_prompt
        self.episode: ForeignEpisode | None = None
        self.counts = {"steps": 0.0, "invalid_actions": 0.0}

    async def reset(self, task: None, ctx: Context) -> str:
        made: dict[str, object] = {
            "env": self.env,
            "arguments": self.arguments,
            "seed": ctx.seed,
            "names": self.actions,
        }
        self.episode = ForeignEpisode(package("gymnasium", "gymnasium_episode.py"), made)
        answer = await self.episode.begin()
        self.actions = answer["actions"]
        return answer["shown"]

    def system_prompt(self) -> str:
        how = _HOW.format(", ".join(self.actions))
        return f"{self.preface}\n\n{how}" if self.preface else how

    async def step(self, action: str) -> StepResult:
        assert self.episode is not None  # `reset` comes first
        answer = await self.episode.step(action)
        if not answer["is_valid"]:
            self.counts["invalid_actions"] += 1
            return StepResult(answer["shown"], metrics=dict(self.counts))
        self.counts["steps"] += 1
        return StepResult(
            answer["shown"],
            answer["reward"],
            answer["done"],
            answer["truncated"],
            metrics=dict(self.counts),
        )

    async def close(self) -> None:
        if self.episode is not None:
            self.episode.close()
