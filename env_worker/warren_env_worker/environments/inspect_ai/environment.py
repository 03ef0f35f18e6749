"""Tasks of Inspect: data sets of samples, with solvers and scorers.

    environments:
      - name: inspect_ai
        config: {task: "my_package/my_task", arguments: {level: 3}}

Inspect runs each episode as an evaluation of one sample: the task's solver calls a model, which is the endpoint of this
episode, so each call is a turn of the policy, recorded token by token as for every agent (`warren.agents`); the task's scorers
give the reward. Inspect stands in a virtual environment of its own (`warren env install inspect_ai`), each episode in a process of its
own (`warren_env_worker.foreign`).

Invariants: a sample that ends with an error, or that a scorer can't judge, fails the episode and is never a reward of 0; no
scorer asks the policy; a sample whose commands run in Inspect's sandbox `local` gets no secrets.

Metrics: each score by the name of its scorer; `limited`, 1 where the sample was cut by a limit of the task.
"""

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, JsonValue, PositiveInt

from warren.agents.environment import Agent, AgentEnv
from warren.agents.other_models import OtherModel
from warren.environment import ConfigError, Limits
from warren_env_worker.environments.plain_arguments import Arguments, require_plain
from warren_env_worker.foreign.box.bubblewrap import (
    chosen,
    chosen_disk_mib,
    granted_isolation,
    refuse_unused,
)
from warren_env_worker.foreign.package import package
from warren_env_worker.foreign.variables import SecretVariables, Variables
from warren_env_worker.foreign.whole_episode import answer_of
from warren_env_worker.permissions.permissions import current
from warren_schemas.base import Frozen
from warren_schemas.fields.secret_variables import SecretVariable
from warren_schemas.ids import MAX_TASK_ID_CHARS
from warren_schemas.isolation.agent_box import Box
from warren_schemas.transcript import MAX_CATEGORY_CHARS

_NAMED = re.compile(r"([A-Za-z0-9][\w-]*)/([A-Za-z0-9][\w-]*)", re.ASCII)
"""Of an installed package."""
_IN_A_FILE = re.compile(r"(.+\.py)(@[A-Za-z_]\w*)?", re.ASCII)
_DOWNLOADED = "hf"
_OWN_VARIABLES = frozenset({"INSPECT_TRACE_FILE", "INSPECT_CACHE_DIR"})
_UNSAFE = "variables: the task's sandbox `local` would show them to the policy; set sandbox: box or docker, or leave them out"
Role = Annotated[str, Field(pattern=r"^[A-Za-z_][\w-]{0,31}$")]


class InspectModel(Frozen):
    """Any server with OpenAI's API."""

    url: str
    """Usually with `/v1` at its end."""
    model: str
    """What it is called there."""
    key_variable: SecretVariable | None = None


class InspectSample(NamedTuple):
    id: int | str
    category: str | None


class InspectAi(AgentEnv[InspectSample]):
    name = "inspect_ai"
    version = "1"
    replayable = (
        True  # the same answers make it ask the same, and another question fails the episode
    )
    limits = Limits(reset_s=600.0, step_s=600.0)

    def __init__(
        self,
        task: str,
        arguments: Mapping[str, JsonValue] | None = None,
        split_arguments: Mapping[str, Mapping[str, JsonValue]] | None = None,
        weights: Mapping[str, float] | None = None,
        models: Mapping[Role, InspectModel] | None = None,
        sandbox: Literal["box", "docker"] | None = None,
        box: Box | None = None,
        disk_mib: PositiveInt | None = None,
        variables: Variables | None = None,
    ) -> None:
        """`task` is `package/task` of an installed package, or `FILE@TASK`; its arguments are those of the task's function, and
        `split_arguments` hold for one of the run's splits alone.

        The reward is the sum of the scores, or of those that have `weights`. `models` are those of the task's roles, such as
        `grader`. `sandbox` is that of all samples, instead of the task's own. `variables` are environment variables whose
        values are secrets of the run, by their names.
        """
        self.task = _known(task)
        self.arguments = Arguments(arguments, split_arguments)
        require_plain(self.arguments.every)
        if weights is not None and not weights:
            raise ConfigError("weights: name at least one score, or leave it out: each counts then")
        self.weights, self.sandbox = weights, sandbox
        self.variables = SecretVariables(variables, _OWN_VARIABLES)
        self.disk_mib = chosen_disk_mib(disk_mib, current())
        self.box = chosen(box, current())
        self.models = {role: _other(model) for role, model in (models or {}).items()}
        refuse_unused(sandbox, box=box is not None, disk_mib=disk_mib is not None)
        if sandbox == "docker":
            current().require_command(["docker"])

    def other_models(self) -> Mapping[str, OtherModel]:
        return self.models

    async def tasks(self, split: str) -> Sequence[InspectSample]:
        told = await self._answer(split, None, self.variables.placeholders)
        return [InspectSample(*each) for each in told["samples"]]

    def id_of(self, task: InspectSample) -> str:
        return str(task.id)[:MAX_TASK_ID_CHARS]

    async def run(self, task: InspectSample, agent: Agent) -> float | None:
        self.category = (task.category or "")[:MAX_CATEGORY_CHARS] or None
        variables = self.variables.of(agent.context.secrets)
        with tempfile.TemporaryDirectory(prefix="warren-inspect-") as logs:
            asked = self._asked(task, agent) | {"logs": logs, "has_secrets": bool(variables)}
            played = await self._answer(agent.context.split, asked, variables)
        if "is_unsafe" in played:
            raise ConfigError(_UNSAFE)
        scores: dict[str, float] = played["scores"]
        for name, value in {**scores, "limited": played["limited"]}.items():
            agent.metric(name, value)
        return self._reward_of(scores)

    def _asked(self, sample: InspectSample, agent: Agent) -> dict[str, object]:
        is_in_a_box = self.sandbox == "box"
        return {
            "id": sample.id,
            "base_url": agent.base_url,
            "api_key": agent.api_key,
            "model": agent.model,
            "roles": list(self.models),
            "sandbox": self.sandbox,
            "isolation": granted_isolation(self.box, self.disk_mib, agent) if is_in_a_box else {},
        }

    def _reward_of(self, scores: Mapping[str, float]) -> float | None:
        if self.weights is None:
            return sum(scores.values()) if scores else None
        if unknown := self.weights.keys() - scores.keys():
            raise ConfigError(
                f"weights: no score is called {', '.join(sorted(unknown))}; there are {', '.join(scores)}"
            )
        return sum(weight * scores[name] for name, weight in self.weights.items())

    async def _answer(
        self, split: str, asked: object, variables: Mapping[str, str]
    ) -> dict[str, Any]:
        made = {"task": self.task, "arguments": self.arguments.of(split)}
        program = package("inspect_ai", "inspect_ai_episode.py")
        return await answer_of(program, made, asked, variables)


def _known(task: str) -> str:
    """As Inspect takes it. Raises `ConfigError`: a task is code."""
    permissions = current()
    if found := _IN_A_FILE.fullmatch(task):
        if not permissions.is_trusted:
            raise ConfigError(
                "task: this env worker's operator allows tasks of installed packages alone"
            )
        if not os.path.isfile(found[1]):
            raise ConfigError(f"task: there is no file {found[1]} on this env worker")
        return os.path.abspath(found[1]) + (found[2] or "")
    named = _NAMED.fullmatch(task)
    if named is None or named[1] == _DOWNLOADED:
        raise ConfigError("task: expected package/task of an installed package, or FILE.py@TASK")
    permissions.function(f"{named[1]}:{named[2]}", "task")
    return task


def _other(model: InspectModel) -> OtherModel:
    """Raises `ConfigError` where the operator doesn't allow it."""
    service = current().service(model.url, model.key_variable)
    return OtherModel(model.url, service.key, model.model)
