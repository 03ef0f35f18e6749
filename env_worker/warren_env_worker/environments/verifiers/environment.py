"""Tasksets of verifiers, and environments of its older API (v0).

    environments:
      - name: verifiers
        config: {taskset: my_taskset, arguments: {level: 3}}

verifiers drives its episodes itself, and calls a model: here the endpoint of this episode, so each call is a turn of the
policy, recorded token by token as for every agent (`warren.agents`). It runs in a virtual environment of its own
(`warren env install verifiers`), each episode in a process of its own (`warren_env_worker.foreign`).

Metrics: those of the taskset, and each of its rewards by its name.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar, NamedTuple

from pydantic import JsonValue

from warren.agents.environment import Agent, AgentEnv
from warren.environment import ConfigError, Context, Limits
from warren_env_worker.environments.plain_arguments import Arguments, require_plain
from warren_env_worker.foreign.package import Package, package
from warren_env_worker.foreign.variables import SecretVariables, Variables
from warren_env_worker.foreign.whole_episode import answer_of
from warren_env_worker.permissions.permissions import current

_OWN_VARIABLES = frozenset({"WARREN_EPISODE_KEY"})
_ID = re.compile(r"[A-Za-z0-9][\w-]{0,127}", re.ASCII)
"""No path, and no part of a package."""


class Question(NamedTuple):
    """A task of a taskset in which some have ids; in others, a task is its number."""

    number: int
    id: str | None


class Verifiers(AgentEnv[Question | int | None]):
    name = "verifiers"
    version = "1"
    replayable = (
        True  # the same answers make it ask the same, and another question fails the episode
    )
    limits = Limits(reset_s=300.0, step_s=300.0)
    package: ClassVar[str] = "verifiers"

    def __init__(
        self,
        taskset: str,
        arguments: Mapping[str, JsonValue] | None = None,
        split_arguments: Mapping[str, Mapping[str, JsonValue]] | None = None,
        variables: Variables | None = None,
    ) -> None:
        """The taskset's id and its config; `split_arguments` are those that only hold for one of the run's splits.
        `variables` are environment variables whose values are secrets of the run, by their names."""
        if not _ID.fullmatch(taskset):
            raise ConfigError("taskset: expected the id of an installed one, such as gsm8k")
        self.taskset = taskset
        self.arguments = Arguments(arguments, split_arguments)
        self.variables = SecretVariables(variables, _OWN_VARIABLES)
        _require_allowed(taskset, self.arguments.every)
        self.require_arguments({name for of in self.arguments.every for name in of})

    def require_arguments(self, names: AbstractSet[str]) -> None:
        """Of the taskset's config; raises `ConfigError`."""
        if "id" in names:
            raise ConfigError("arguments.id: the taskset is named by `taskset` alone")
        if "system_prompt" in names and not current().is_trusted:
            raise ConfigError("arguments.system_prompt: it is the path of a file on the worker")

    async def tasks(self, split: str) -> Sequence[Question] | Sequence[int] | None:
        told = await answer_of(*self._program(split), None, self.variables.placeholders)
        if told["n_tasks"] is None:
            return None
        if told["ids"] is None:
            return range(told["n_tasks"])
        return [Question(number, given) for number, given in enumerate(told["ids"])]

    def id_of(self, task: Question | int | None) -> str | None:
        return task.id if isinstance(task, Question) else None

    async def run(self, task: Question | int | None, agent: Agent) -> float | None:
        variables = self.variables.of(agent.context.secrets)
        program = self._program(agent.context.split)
        played = await answer_of(*program, _asked(task, agent), variables)
        for name, value in played["metrics"].items():
            agent.metric(name, value)
        return played["reward"]

    def _program(self, split: str) -> tuple[Package, Mapping[str, object]]:
        """And what makes the taskset there. Raises `ConfigError`."""
        arguments = self.arguments.of(split)
        made = {"taskset": self.taskset, "arguments": arguments, **self.of_split(split)}
        return package(self.package, f"{self.package}_episode.py"), made

    def of_split(self, split: str) -> Mapping[str, object]:
        """What the program is told of the split. Raises `ConfigError`."""
        self.arguments.require_told_apart(split)
        return {}


class VerifiersV0(Verifiers):
    name = "verifiers_v0"
    package = "verifiers_v0"

    def require_arguments(self, names: AbstractSet[str]) -> None:
        """They are what `load_environment` takes: none of them means anything to verifiers."""

    def of_split(self, split: str) -> Mapping[str, object]:
        return {"split": split, "is_made_for_it": self.arguments.has_own(split)}


def _asked(task: Question | int | None, agent: Agent) -> dict[str, object]:
    context: Context = agent.context
    number = task.number if isinstance(task, Question) else task
    index = context.index if number is None else number
    called = {"base_url": agent.base_url, "api_key": agent.api_key, "model": agent.model}
    return {"index": index, **called}


def _require_allowed(taskset: str, arguments: Sequence[Mapping[str, JsonValue]]) -> None:
    """Under an operator's policy a taskset is a function that it lists, and what it gets holds nothing that names code."""
    permissions = current()
    module = taskset.replace("-", "_").lower()
    try:
        permissions.function(f"{module}:load")
    except ConfigError as error:
        raise ConfigError(
            f"taskset: {taskset} is none that this env worker's operator allows ({module}:* in functions of the policy)"
        ) from error
    require_plain(arguments)
