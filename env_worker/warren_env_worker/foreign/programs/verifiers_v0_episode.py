"""An episode of an environment of verifiers' v0 API, in the Python where it is installed.

Invariant: a reward function that raises fails the episode; verifiers itself would make a reward of 0 of it.
"""

import asyncio
import functools
import importlib
import inspect
import os
import sys
from typing import Any

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
ids: Any = importlib.import_module("verifiers_ids")
vf: Any = importlib.import_module("verifiers")
types: Any = importlib.import_module("verifiers.types")
_LOADED = (vf.ToolEnv, vf.Rubric, importlib.import_module("datasets"))
"""Before there are processes: verifiers imports what is used, when it is used."""

KEY_VARIABLE = "WARREN_EPISODE_KEY"
MAX_RETRIES = 3
"""Of a call of the model whose answer got lost."""


class Episode:
    def make(
        self, taskset: str, arguments: dict[str, Any], split: str, is_made_for_it: bool
    ) -> None:
        """`is_made_for_it`: the arguments are of this split alone."""
        self._env: Any = vf.load_environment(taskset, **arguments)
        if self._env.requires_group_rollouts:
            raise ValueError("it rewards whole groups, which is not played")
        self._rows: Any = rows_of(self._env, split, is_made_for_it=is_made_for_it)

    def begin(self) -> dict[str, Any]:
        return {}

    def step(self, asked: dict[str, Any] | None) -> dict[str, Any]:
        """The whole episode; None: how many tasks there are, and their ids."""
        if asked is None:
            return ids.listed(ids.ids_of_rows(self._rows))
        os.environ[KEY_VARIABLE] = asked["api_key"]
        failures: list[Exception] = []
        note_failures(self._env.rubric, failures)
        client = types.ClientConfig(
            api_base_url=asked["base_url"], api_key_var=KEY_VARIABLE, max_retries=MAX_RETRIES
        )
        row = self._rows[asked["index"]]
        played = asyncio.run(self._env.run_rollout(row, client, asked["model"], {}))
        if played["error"] is not None:
            raise RuntimeError(str(played["error"]))
        if failures:
            raise failures[0]
        metrics = {name: float(value) for name, value in played["metrics"].items()}
        return {"reward": float(played["reward"]), "metrics": metrics}


def rows_of(env: Any, split: str, *, is_made_for_it: bool) -> Any:
    """Its `dataset` for `train`, and its `eval_dataset` for another split. verifiers itself would give the rows of
    `dataset` for a missing one: that is refused, unless arguments of the split have made them. Raises `ValueError`."""
    rows = env.get_dataset() if split == "train" else env.build_eval_dataset()
    if rows is None and is_made_for_it:
        rows = env.get_dataset()
    if rows is None:
        raise ValueError(
            f"it has a dataset, for train, and no eval_dataset, which {split} would play: make one in load_environment, or"
            f" give split_arguments.{split} what loads other rows as its dataset"
        )
    return rows


def note_failures(rubric: Any, failures: list[Exception]) -> None:
    """Of its functions, and of those of its parts."""
    for part in getattr(rubric, "rubrics", ()):
        note_failures(part, failures)
    rubric.funcs = [noting(function, failures) for function in getattr(rubric, "funcs", ())]


def noting(function: Any, failures: list[Exception]) -> Any:
    @functools.wraps(function)
    async def called(*given: Any, **named: Any) -> Any:
        try:
            result = function(*given, **named)
            return await result if inspect.isawaitable(result) else result
        except Exception as error:
            failures.append(error)
            raise

    return called
