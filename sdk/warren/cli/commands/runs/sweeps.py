"""`warren train --sweep`, and the runs of a sweep compared and cancelled."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import Gateway
from warren.client import Client
from warren.configs import read_config
from warren.display.output import Output, make_output, print_json
from warren.display.words import decimal
from warren.errors import ConfigurationError, NotFound
from warren.run import Run
from warren.run_configs.sweeps.comparing import RunComparison, compare_runs, differences
from warren.run_configs.sweeps.grid import MOST_RUNS, Grid, configs_of, read_grid
from warren.run_configs.sweeps.handle import Sweep
from warren_schemas.config import TrainConfig
from warren_schemas.http import RunList


@dataclass(frozen=True, slots=True)
class SweepWanted:
    path: Path
    overrides: Sequence[str]
    written: Sequence[str]
    """`KEY=VALUE,VALUE`."""
    name: str | None
    priority: int


def refuse_beside_sweep(values: Sequence[str], detach: bool, other: object) -> None:
    """Raises `ConfigurationError` for options that have no effect."""
    if not values:
        raise ConfigurationError("--sweep-name needs --sweep")
    if detach:
        raise ConfigurationError(
            "--detach goes with one run", hint="Those of a sweep are submitted and not followed."
        )
    if other:
        raise ConfigurationError("--from, --print and --on-disconnect go with one run")


def submit_sweep(wanted: SweepWanted, gateway: Gateway, *, is_dry: bool, as_json: bool) -> int:
    """Nothing is submitted unless every run of it is valid. Raises `ConfigurationError`."""
    grid, config = read_grid(wanted.written), read_config(wanted.path, wanted.overrides)
    if is_dry:
        _print_configs(configs_of(config, grid), make_output())
        return codes.OK
    return asyncio.run(_submit(config, grid, wanted, gateway, as_json=as_json))


async def _submit(
    config: TrainConfig, grid: Grid, wanted: SweepWanted, gateway: Gateway, *, as_json: bool
) -> int:
    async with connected(gateway) as client:
        sweep = await client.sweep(config, grid, name=wanted.name, priority=wanted.priority)
    if as_json:
        print_json(RunList(runs=tuple(run.view for run in sweep.runs)))
        return codes.OK
    output = make_output()
    _print_configs([run.view.config for run in sweep.runs], output, [run.id for run in sweep.runs])
    output.line(f"Compare them with: warren runs compare --sweep {sweep.name}", "dim")
    return codes.OK


async def compare(
    names: Sequence[str], sweep: str | None, metric: str | None, gateway: Gateway, *, lowest: bool
) -> RunComparison:
    """Raises `ConfigurationError`, `NotFound`."""
    if bool(names) == (sweep is not None):
        raise ConfigurationError("Say what to compare: either runs or --sweep NAME")
    async with connected(gateway) as client:
        if sweep is not None:
            runs: Sequence[Run] = (await find_sweep(client, sweep)).runs
        else:
            runs = [await client.run(name) for name in names]
        return await compare_runs(runs, metric, lowest=lowest)


async def find_sweep(client: Client, name: str) -> Sweep:
    """Raises `NotFound`."""
    runs = await client.runs(limit=MOST_RUNS, sweep=name)
    if not runs:
        raise NotFound(f"There is no sweep {name}", hint="`warren runs ls` names those of runs.")
    return Sweep(name, runs[::-1])


async def cancel_sweep(name: str, gateway: Gateway, *, save: bool) -> int:
    async with connected(gateway) as client:
        sweep = await find_sweep(client, name)
        await sweep.cancel(save=save)
    make_output().line(f"All {len(sweep.runs)} runs of {name} are over or being cancelled")
    return codes.OK


def print_run_comparison(found: RunComparison, output: Output) -> None:
    keys = list(found.runs[0].differs)
    rows = [
        (one.run, *(one.differs[key] for key in keys), one.state, str(one.step),
         decimal(one.best), "" if one.best_step is None else str(one.best_step), decimal(one.last))
        for one in found.runs
    ]  # fmt: skip
    numbers = ["step", "best", "at step", "last"]
    output.table(["run", *keys, "state", *numbers], rows, right=numbers)
    output.line(f"Best and last of {found.metric}", "dim")


def _print_configs(
    configs: Sequence[TrainConfig | None], output: Output, ids: Sequence[str] | None = None
) -> None:
    found = differences(configs)
    keys = list(found[0])
    names = ids or [str(number) for number in range(1, len(configs) + 1)]
    rows = [(name, *(one[key] for key in keys)) for name, one in zip(names, found, strict=True)]
    output.table(["run", *keys], rows)
