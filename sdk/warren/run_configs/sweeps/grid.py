"""The configs of a sweep: every combination of the values of its keys, the last key changing fastest.

Invariant: all of them are valid and different before any is submitted.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import cast

from warren.configs import ConfigLike, changed_config, to_config
from warren.errors import ConfigurationError
from warren_schemas.config import TrainConfig
from warren_schemas.config_files.yaml_text import YamlError, parse_yaml

MOST_RUNS = 256

Grid = Mapping[str, Sequence[object]]
"""Key of a config -> its values."""


def read_grid(written: Sequence[str]) -> Grid:
    """From `optimizer.learning_rate=1e-4,3e-4`. Raises `ConfigurationError`."""
    grid: dict[str, Sequence[object]] = {}
    for sweep in written:
        key, equals, text = sweep.partition("=")
        if not equals or not key.strip():
            raise _unreadable(sweep, "write KEY=VALUE,VALUE")
        if key.strip() in grid:
            raise _unreadable(sweep, f"{key.strip()} was given before; list all its values at once")
        try:
            values = parse_yaml(f"[{text}]")
        except YamlError as error:
            raise _unreadable(sweep, str(error)) from error
        if not isinstance(values, list):
            raise _unreadable(sweep, "its values are no list")
        grid[key.strip()] = cast("list[object]", values)
    return grid


def configs_of(config: ConfigLike, grid: Grid) -> tuple[TrainConfig, ...]:
    """In the order in which they are submitted. Raises `ConfigurationError`."""
    _require_few(grid)
    base, configs = to_config(config), list[TrainConfig]()
    for values in itertools.product(*grid.values()):
        chosen = [f"{k}={json.dumps(v, default=str)}" for k, v in zip(grid, values, strict=True)]
        made = changed_config(base, chosen)
        if made in configs:
            raise ConfigurationError(
                f"Two runs of the sweep are the same: {', '.join(chosen)}",
                hint="Give each value once, and keys that differ in effect.",
            )
        configs.append(made)
    return tuple(configs)


def _require_few(grid: Grid) -> None:
    if empty := [key for key, values in grid.items() if not values]:
        raise ConfigurationError(f"The sweep has no values for {', '.join(empty)}")
    n_runs = 1
    for values in grid.values():
        n_runs *= len(values)
    if not grid or n_runs > MOST_RUNS:
        raise ConfigurationError(
            f"The sweep has {n_runs} runs, and may have 2 to {MOST_RUNS}"
            if grid
            else "The sweep varies nothing",
            hint="Give --sweep KEY=VALUE,VALUE, for up to a few keys.",
        )


def _unreadable(sweep: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"--sweep {sweep}: {why}", hint="For example: --sweep optimizer.learning_rate=1e-4,3e-4"
    )
