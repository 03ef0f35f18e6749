"""A trial of a task of Harbor, in the Python where that is installed.

Harbor runs the whole trial: it makes the container, lets its agent solve the task, runs the task's tests and reads their
reward. Its agents call the model where they are told to: at our endpoint, with the episode's key.

Invariants: a reward is told where Harbor says that it is valid, and else why it is not; no failure is a reward of 0. Texts of failures are
told uncut: the host takes secrets out of them, and would not recognise part of one.
"""

import asyncio
import importlib
import os
import sys
from pathlib import Path
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it asks the network for one otherwise
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
box: Any = importlib.import_module("harbor_box")
shell: Any = importlib.import_module("harbor_shell")
trials: Any = importlib.import_module("harbor.trial.trial")
configs: Any = importlib.import_module("harbor.models.trial.config")
tasks: Any = importlib.import_module("harbor.models.task.task")
agents: Any = importlib.import_module("harbor.agents.factory")
_LOADED = [
    importlib.import_module(name)
    for name in (
        "harbor.trial.single_step", "harbor.trial.multi_step", "harbor.trial.sync_trajectory",
        "harbor.llms.litellm_config", "harbor.agents.terminus_2", "litellm", "dirhash", "dockerfile_parse",
    )
]  # fmt: skip
"""Before there are processes: it imports what is used, when it is used."""

SHELL = "harbor_shell:Shell"
NO_LIMIT_S = 30 * 86400.0
"""The episode's own limits hold: Harbor's count the waiting for the model."""
NOT_GRADED = {"should_retry": True, "should_grade": False, "has_valid_reward": False}
OF_THE_TASK = ("SandboxBuildFailedError", "UnsupportedDockerfileError")
"""What goes wrong each time."""


class Episode:
    def make(self, folder: str) -> None:
        self._folder = Path(folder)

    def begin(self) -> dict[str, Any]:
        return {}

    def step(self, asked: dict[str, Any] | None) -> dict[str, Any]:
        """The whole trial; None: the tasks of the folder."""
        if asked is None:
            return {"tasks": tasks_in(self._folder)}
        box.SETTINGS = asked["box"]
        os.environ["OPENAI_API_KEY"] = asked["api_key"]
        os.environ["OPENAI_BASE_URL"] = asked["base_url"]
        return asyncio.run(played(self._folder / asked["task"], asked))


def tasks_in(folder: Path) -> list[dict[str, Any]]:
    """In the order of their names. Raises what Harbor raises for one that it can't read."""
    return [
        {"name": path.parent.name, "category": category_of(tasks.Task(path.parent))}
        for path in sorted(folder.glob("*/task.toml"))
    ]


def category_of(task: Any) -> str | None:
    category = task.config.metadata.get("category")
    return category if isinstance(category, str) else None


async def played(folder: Path, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        task = tasks.Task(folder)
        agent = agent_of(asked, task.config.agent.timeout_sec)
    except Exception as error:  # noqa: BLE001 - Harbor raises whatever it meets
        return failed("config", error)
    try:
        config = configs.TrialConfig.model_validate(
            {
                "task": {"path": str(folder)},
                "trials_dir": asked["trials"],
                "agent": agent,
                "environment": environment_of(asked),
                "override_error_policy": {"BoxLost": NOT_GRADED},
            }
        )
        trial = await trials.Trial.create(config)
    except Exception as error:  # noqa: BLE001 - Harbor raises whatever it meets
        return failed("task", error)
    result = await trial.run()
    return outcome(result)


def agent_of(asked: dict[str, Any], limit_s: float | None) -> dict[str, Any]:
    """Raises `ValueError` for one that there is not."""
    named, model = asked["agent"], asked["model"]
    if named == "shell":
        kwargs = {**asked["shell"], "endpoint": asked["base_url"], "limit_s": limit_s}
        agent = {"import_path": SHELL, "model_name": model, "kwargs": kwargs}
    elif ":" in named:
        agent = {"import_path": named, "model_name": model, "kwargs": asked["agent_config"]}
    else:
        agent = {"name": named, "model_name": f"openai/{model}", "kwargs": asked["agent_config"]}
        agent["base_url"] = asked["base_url"]
    agents.AgentFactory.get_agent_class_from_config(configs.AgentConfig.model_validate(agent))
    return agent | {"override_timeout_sec": NO_LIMIT_S}


def environment_of(asked: dict[str, Any]) -> dict[str, Any]:
    if asked["sandbox"] != "box":
        return {"type": asked["sandbox"]}
    return {"import_path": "harbor_box:BoxEnvironment"}


def outcome(result: Any) -> dict[str, Any]:
    raised = result.recorded_exceptions()
    if not result.reward_valid:
        if not raised:
            return {"failed": "reward", "why": "the tests gave no reward"}
        told, kind = raised[0], raised[0].exception_type
        where = "task" if kind in OF_THE_TASK else "trial"
        return {"failed": where, "why": f"{kind}: {told.exception_message}"}
    rewards = {name: float(value) for name, value in result.verifier_result.rewards.items()}
    return {"rewards": rewards, "agent_error": float(bool(raised))}


def failed(where: str, error: Exception) -> dict[str, Any]:
    return {"failed": where, "why": f"{type(error).__name__}: {error}"}
