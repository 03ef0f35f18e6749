"""The configs of fine-tuning and of inference, from a few words and `a.b=c` changes on top."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from warren.configs import to_config
from warren.errors import ConfigurationError
from warren_schemas.config import ModelConfig, TrainConfig
from warren_schemas.config_files.overrides import OverrideError, apply_overrides
from warren_schemas.datasets.names import referred
from warren_schemas.http import ChooseDataset

PROMPTS = "prompts"
"""The environment that judges nothing."""


def config_of_fine_tuning(
    dataset: str, model: str | ModelConfig, changes: Sequence[str] = ()
) -> TrainConfig:
    """Of a base model, or of what begins with an adapter, on a data set, and nothing else. Raises `ConfigurationError`."""
    written: dict[str, Any] = {
        "name": f"sft-{_name(dataset)}",
        "model": {"base": model} if isinstance(model, str) else model.model_dump(mode="json"),
        "sft": {"dataset": dataset},
        "limits": {"steps": 0},
    }
    return _changed(written, changes)


def config_of_inference(
    dataset: str,
    n_rows: int,
    *,
    model: str,
    split: str = "train",
    samples: int = 1,
    temperature: float = 0.0,
    changes: Sequence[str] = (),
) -> TrainConfig:
    """An evaluation of the environment `prompts`, which judges nothing: every row, in order. Raises `ConfigurationError`."""
    environment = {
        "name": PROMPTS,
        "dataset": dataset,
        "split": split,
        "splits": {split: {"shuffle": False}},
    }
    written: dict[str, Any] = {
        "name": f"infer-{_name(dataset)}",
        "model": {"base": model},
        "environments": [environment],
        "evaluation": {
            "episodes": n_rows * samples,
            "samples": samples,
            "temperature": temperature,
        },
        "limits": {"steps": 0},
    }
    return _changed(written, changes)


def _name(dataset: str) -> str:
    try:
        ChooseDataset(dataset=dataset)
    except ValidationError as error:
        raise ConfigurationError(
            f"{dataset!r} names no data set", hint="`warren data ls` lists them."
        ) from error
    return referred(dataset).name


def _changed(written: Mapping[str, Any], changes: Sequence[str]) -> TrainConfig:
    try:
        return to_config(apply_overrides(dict(written), changes))
    except OverrideError as error:
        raise ConfigurationError("--set can't be read", details=[str(error)]) from error
