"""Tasks of Harbor: folders with an instruction, a container and tests.

    environments:
      - name: harbor
        config: {path: "tasks/{split}"}

Harbor runs each episode as a trial of its own: it makes the container, has an agent solve the task there, runs the
task's tests and reads their reward. Its agent calls the endpoint of this episode: each call is a turn of the policy,
recorded token by token as for every agent (`warren.agents`). Harbor stands in a virtual environment of its own
(`warren env install harbor`), each episode in a process of its own (`warren_env_worker.foreign`), and its container is
a box on this machine unless the config says docker or podman.

Invariant: a reward counts where Harbor calls it valid; whatever else a trial ends with fails the episode by its name.

Metrics: each reward of the tests by its name; `agent_error`, 1 where the agent ended by an error and was graded all the same.
"""

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from pydantic import JsonValue, PositiveFloat, PositiveInt

from warren.agents.environment import Agent, AgentEnv
from warren.environment import ConfigError, Limits, TaskError
from warren_env_worker.foreign.box.bubblewrap import (
    chosen,
    chosen_disk_mib,
    granted_isolation,
    refuse_unused,
)
from warren_env_worker.foreign.episode import PackageFailed
from warren_env_worker.foreign.package import package
from warren_env_worker.foreign.variables import SecretVariables, Variables
from warren_env_worker.foreign.whole_episode import answer_of
from warren_env_worker.permissions.permissions import current
from warren_schemas.ids import MAX_TASK_ID_CHARS
from warren_schemas.isolation.agent_box import Box
from warren_schemas.transcript import MAX_CATEGORY_CHARS

_AGENTS = ("shell", "terminus-2")
"""Those that an operator's policy need not name: their loop runs beside the container, not in it."""
_OWN_VARIABLES = frozenset({"OPENAI_API_KEY", "OPENAI_BASE_URL"})
_SHELL: dict[str, JsonValue] = {"max_calls": 32, "command_s": 120.0, "result_chars": 20_000}
_SPLIT = "{split}"
_USUAL_REWARD = "reward"


class HarborTask(TypedDict):
    name: str
    """Of its folder."""
    category: NotRequired[str | None]


class Harbor(AgentEnv[HarborTask]):
    name = "harbor"
    version = "1"
    replayable = (
        True  # the same answers make it run the same commands; another result fails the episode
    )
    limits = Limits(reset_s=1800.0, step_s=1800.0)  # images are built, and tests run long

    def __init__(
        self,
        path: str,
        agent: str = "shell",
        agent_config: Mapping[str, JsonValue] | None = None,
        max_calls: PositiveInt | None = None,
        command_s: PositiveFloat | None = None,
        result_chars: PositiveInt | None = None,
        reward: str | None = None,
        sandbox: Literal["box", "docker", "podman"] = "box",
        box: Box | None = None,
        disk_mib: PositiveInt | None = None,
        skip_run_lines: bool = False,
        variables: Variables | None = None,
    ) -> None:
        """`path` is a folder of tasks on the env worker; `{split}` in it stands for the split.

        `agent` is `shell` (ours: one tool, 32 or `max_calls` of 120 or `command_s` each), the name of one of Harbor's, or
        `module:Class`; `agent_config` is for these. `reward` is which of the tests' rewards counts: that one must be
        there. Without it, the only one does, or of several the one called `reward`.
        `box` and `disk_mib` bound a box; `skip_run_lines` leaves out what a Dockerfile runs. `variables` are environment
        variables of the trial's process, which a task.toml names as `${NAME}`; their values are secrets of the run, by name.
        """
        self.permissions = current()
        self.path, self.agent, self.agent_config = path, agent, dict(agent_config or {})
        given = {"max_calls": max_calls, "command_s": command_s, "result_chars": result_chars}
        of_shell = {name: value for name, value in given.items() if value is not None}
        self.shell: dict[str, JsonValue] = {**_SHELL, **of_shell}
        self.reward, self.sandbox = reward, sandbox
        self.box = chosen(box, self.permissions)
        self.disk_mib = chosen_disk_mib(disk_mib, self.permissions)
        self.skip_run_lines = skip_run_lines
        self.variables = SecretVariables(variables, _OWN_VARIABLES)
        if agent == "shell" and self.agent_config:
            raise ConfigError("agent_config: the agent shell is set by max_calls and its like")
        if agent != "shell" and of_shell:
            raise ConfigError(f"{', '.join(of_shell)}: only for the agent shell; leave it out")
        refuse_unused(
            sandbox,
            box=box is not None,
            disk_mib=disk_mib is not None,
            skip_run_lines=skip_run_lines,
        )
        self._require_allowed()

    def _require_allowed(self) -> None:
        if self.sandbox != "box":
            self.permissions.require_command([self.sandbox])
        if ":" in self.agent:
            self.permissions.function(self.agent, "agent")
        elif not (self.permissions.is_trusted or self.agent in _AGENTS):
            raise ConfigError(
                f"agent: this env worker's operator allows {', '.join(_AGENTS)}, and module:Class of its functions"
            )
        if self.agent_config and not self.permissions.is_trusted:
            raise ConfigError("agent_config: this env worker's operator allows none")

    async def tasks(self, split: str) -> Sequence[HarborTask]:
        found: list[HarborTask] = (await self._answer(split, None, self.variables.placeholders))[
            "tasks"
        ]
        if not found:
            raise ConfigError(f"path: no folder below {self.path} has a task.toml")
        return found

    def id_of(self, task: HarborTask) -> str:
        return task["name"][:MAX_TASK_ID_CHARS]

    async def run(self, task: HarborTask, agent: Agent) -> float:
        self.category = (task.get("category") or "")[:MAX_CATEGORY_CHARS] or None
        variables = self.variables.of(agent.context.secrets)
        with tempfile.TemporaryDirectory(prefix="warren-harbor-") as trials:
            asked = self._asked(task, agent) | {"trials": trials}
            played = await self._answer(agent.context.split, asked, variables)
        if "failed" in played:
            raise _failure(task["name"], **played)
        agent.metric("agent_error", played["agent_error"])
        for name, value in played["rewards"].items():
            agent.metric(name, value)
        return self._reward_of(played["rewards"])

    def _asked(self, task: HarborTask, agent: Agent) -> dict[str, object]:
        return {
            "task": task["name"],
            "base_url": agent.base_url,
            "api_key": agent.api_key,
            "model": agent.model,
            "agent": self.agent,
            "agent_config": self.agent_config,
            "shell": self.shell,
            "sandbox": self.sandbox,
            "box": {
                "isolation": self._isolation(agent),
                "has_network": self.box.network == "host",
                "skip_run_lines": self.skip_run_lines,
            },
        }

    def _isolation(self, agent: Agent) -> dict[str, object]:
        if self.sandbox != "box":
            return {}
        return granted_isolation(self.box, self.disk_mib, agent)

    def _reward_of(self, rewards: Mapping[str, float]) -> float:
        if self.reward is None and len(rewards) == 1:
            return next(iter(rewards.values()))
        named = _USUAL_REWARD if self.reward is None else self.reward
        if named in rewards:
            return rewards[named]
        raise ConfigError(
            f"reward: the tests gave {', '.join(rewards)}, and none called {named}; name one of them"
        )

    async def _answer(
        self, split: str, asked: object, variables: Mapping[str, str]
    ) -> dict[str, Any]:
        folder = self.permissions.folder(self.path.replace(_SPLIT, split))
        program = package("harbor", "harbor_episode.py")
        return await answer_of(program, {"folder": folder}, asked, variables)


def _failure(task: str, failed: str, why: str) -> Exception:
    if failed == "config":
        return ConfigError(why)
    return TaskError(f"{task}: {why}") if failed == "task" else PackageFailed(why)
