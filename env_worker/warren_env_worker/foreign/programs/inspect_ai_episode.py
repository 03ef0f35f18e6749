"""A sample of a task of Inspect, in the Python where that is installed.

Inspect runs the sample as an evaluation of its own: solvers, tools, limits and scorers are the task's. It calls the model where it is
told to: at our endpoint, with the episode's key.

Invariants: a score counts where the sample ended without an error and the score is a number; a scorer never asks the
policy, which would be its own judge; the policy's commands don't run with secrets in their variables. Texts of failures are
told uncut: the host takes secrets out of them, and would not recognise part of one.
"""

import asyncio
import importlib
import math
import os
import sys
from typing import Any

inspect: Any = importlib.import_module("inspect_ai")
datasets: Any = importlib.import_module("inspect_ai.dataset")
hooks: Any = importlib.import_module("inspect_ai.hooks")
loader: Any = importlib.import_module("inspect_ai._eval.loader")
registry: Any = importlib.import_module("inspect_ai._util.registry")
display: Any = importlib.import_module("inspect_ai.util._display")
models: Any = importlib.import_module("inspect_ai.model")
scorers: Any = importlib.import_module("inspect_ai.scorer")
compatible: Any = importlib.import_module("inspect_ai.model._providers.openai_compatible")
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
box: Any = importlib.import_module("inspect_box")
importlib.import_module("inspect_ai._eval.eval")  # before there are processes

SERVICE = "warren"
NO_LIMIT_S = 30 * 86400.0
"""The episode's own limits hold: Inspect's count the waiting for the model."""
CATEGORIES = ("category", "subject", "domain", "type")
HERE = "local"
"""Inspect's sandbox without isolation: its commands inherit the variables of this process."""
_numbered = scorers.value_to_float()


class Scoring:
    has_begun = False


@hooks.hooks(name="warren_scoring", description="Notes when the scorers begin.")
class NotesScoring(hooks.Hooks):
    async def on_sample_scoring(self, data: Any) -> None:
        Scoring.has_begun = True


class PolicyJudges(Exception):
    """A scorer asks the policy."""


@models.modelapi(name=SERVICE)
class Model(compatible.OpenAICompatibleAPI):
    """The policy, or another model by its role; both at the episode's endpoint."""

    def __init__(self, model_name: str, **given: Any) -> None:
        parent: Any = super()
        parent.__init__(f"{SERVICE}/{model_name}", service=SERVICE, **given)

    async def generate(self, *given: Any, **named: Any) -> Any:
        if Scoring.has_begun and self.service_model_name() == Episode.policy:
            raise PolicyJudges("a scorer asks the policy: name another model for it (models)")
        parent: Any = super()
        return await parent.generate(*given, **named)


class Episode:
    policy = ""
    """What the policy is called."""

    def make(self, task: str, arguments: dict[str, Any]) -> None:
        found = loader.load_tasks([task], arguments)
        if len(found) != 1:
            raise ValueError(f"{task} names {len(found)} tasks: write FILE@TASK for one")
        (self._task,) = found
        if unknown := arguments.keys() - registry.registry_params(self._task).keys():
            raise ValueError(f"{task} takes no argument {', '.join(sorted(unknown))}")
        for number, sample in enumerate(self._task.dataset, start=1):
            sample.id = number if sample.id is None else sample.id

    def begin(self) -> dict[str, Any]:
        return {}

    def step(self, asked: dict[str, Any] | None) -> dict[str, Any]:
        """The whole sample; None: the samples of the task."""
        samples = list(self._task.dataset)
        if asked is None:
            return {"samples": [[sample.id, category_of(sample)] for sample in samples]}
        os.environ["INSPECT_TRACE_FILE"] = os.path.join(asked["logs"], "trace.log")
        os.environ["INSPECT_CACHE_DIR"] = asked["logs"]  # no answer is another episode's
        box.ISOLATION, Episode.policy = asked["isolation"], asked["model"]
        (sample,) = [sample for sample in samples if sample.id == asked["id"]]
        if asked["has_secrets"] and self._sandbox_of(sample, asked["sandbox"]) == HERE:
            return {"is_unsafe": True}
        self._task.dataset = datasets.MemoryDataset([sample])
        self._task.time_limit = self._task.working_limit = None
        return outcome(asyncio.run(self._played(asked)))

    def _sandbox_of(self, sample: Any, chosen: str | None) -> str | None:
        """As Inspect chooses it."""
        own = self._task.sandbox or sample.sandbox
        return chosen or (own.type if own else None)

    async def _played(self, asked: dict[str, Any]) -> Any:
        display.init_display_type("none")
        (log,) = await inspect.eval_async(
            self._task,
            model=model_of(asked["model"], asked),
            model_roles={role: model_of(role, asked) for role in asked["roles"]},
            sandbox=asked["sandbox"],
            epochs=1,
            log_dir=asked["logs"],
            log_realtime=False,
            ctl_server=False,
            max_connections=64,
        )
        return log


def category_of(sample: Any) -> str | None:
    known: dict[str, Any] = sample.metadata or {}
    given = (known.get(name) for name in CATEGORIES)
    return next((value for value in given if isinstance(value, str)), None)


def model_of(name: str, asked: dict[str, Any]) -> Any:
    address = {"base_url": asked["base_url"], "api_key": asked["api_key"]}
    return models.get_model(f"{SERVICE}/{name}", **address, client_timeout=NO_LIMIT_S)


def outcome(log: Any) -> dict[str, Any]:
    sample = log.samples[0] if log.samples else None
    error = log.error if sample is None or sample.error is None else sample.error
    if sample is None or error is not None:
        raise RuntimeError(error.message if error is not None else "the sample was not played")
    scores: dict[str, Any] = sample.scores or {}
    parts = {n: p for name, score in scores.items() for n, p in parts_of(name, score)}
    return {"scores": parts, "limited": float(sample.limit is not None)}


def parts_of(name: str, score: Any) -> list[tuple[str, float]]:
    """Of a value that is a list or a mapping, each by a name of its own."""
    value: Any = score.value
    if value is None or isinstance(value, str | int | float):
        return [(name, number(name, value, score))]
    parts: Any = value.items() if hasattr(value, "items") else enumerate(value)
    return [(f"{name}/{key}", number(name, part, score)) for key, part in parts]


def number(name: str, value: Any, score: Any) -> float:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        why = score.reason or score.explanation or "it says no number"
        raise RuntimeError(f"the scorer {name} gave no score: {why}")
    if isinstance(value, str) and not is_a_score(value):
        raise RuntimeError(f"the scorer {name} gave what is no number: {value}")
    return _numbered(value)


def is_a_score(value: str) -> bool:
    if value in ("C", "I", "P", "N") or value.lower() in ("yes", "no", "true", "false"):
        return True
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False
