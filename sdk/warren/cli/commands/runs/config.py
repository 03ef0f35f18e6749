"""Show, check and compare configs: of files, and of runs.

For example:
    warren config show examples/guess.yaml
    warren config check examples/*.yaml
    warren config diff last other.yaml
"""

import asyncio
import json as json_text
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import JsonValue

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.client import Client, connect
from warren.configs import read_config
from warren.display.output import make_output, print_json
from warren.errors import (
    AuthenticationError,
    ConfigurationError,
    GatewayBusy,
    GatewayUnreachable,
    NotFound,
)
from warren_schemas.base import Frozen
from warren_schemas.config import TrainConfig
from warren_schemas.config_files.keys import ConfigKey, differences, keys_of

__all__ = ["check", "diff", "show"]

Source = Annotated[str, Parameter(help="A YAML or TOML file, or a run: id, name or `last`.")]
Overrides = Annotated[
    tuple[str, ...], Parameter(name="--set", help="KEY=VALUE that overrides the file; repeatable.")
]
_RUN = "run"


class ShownKey(Frozen):
    """What `show --json` prints a list of."""

    key: str
    value: JsonValue
    source: str


class CheckedFile(Frozen):
    """What `check --json` prints for each file."""

    file: str
    mistakes: tuple[str, ...]
    notes: tuple[str, ...]
    """What could not be checked."""


def show(
    config: Source,
    /,
    *,
    set_: Overrides = (),
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Show a whole config, defaults filled in, and where each value comes from.

    Of a run, defaults that somebody wrote out can't be told from others.

    For example:
        warren config show examples/guess.yaml --set limits.steps=40
        warren config show last
    """
    found = asyncio.run(_read_all([config], set_, gateway))[0]
    whose = config if _is_file(config) else _RUN
    shown = [_shown(key, whose, set_) for key in keys_of(found)]
    if json:
        print(json_text.dumps([key.model_dump() for key in shown]))
        return codes.OK
    rows = [(key.key, _text(key.value), key.source) for key in shown]
    make_output().table(("key", "value", "from"), rows)
    return codes.OK


def check(
    *files: Annotated[Path, Parameter(help="YAML or TOML files.")],
    set_: Overrides = (),
    offline: Annotated[bool, Parameter(help="Don't ask the gateway.")] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Find all mistakes in configs, without submitting anything.

    Keys, types and values are checked here; models, environments, data sets and checkpoints by the gateway, if
    one answers.

    For example:
        warren config check examples/guess.yaml
        warren config check *.yaml --offline
    """
    if not files:
        raise ConfigurationError(
            "There is nothing to check", hint="warren config check examples/guess.yaml"
        )
    checked = asyncio.run(_check(files, set_, None if offline else gateway))
    for each in checked:
        if json:
            print_json(each)
        else:
            _tell(each)
    return codes.USAGE if any(each.mistakes for each in checked) else codes.OK


def diff(a: Source, b: Source, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Show in which keys two configs differ, defaults filled in.

    For example:
        warren config diff monday.yaml tuesday.yaml
        warren config diff last examples/guess.yaml
    """
    ours, theirs = asyncio.run(_read_all([a, b], (), gateway))
    found = differences(ours, theirs)
    if json:
        print(json_text.dumps([{"key": d.path, "a": d.a, "b": d.b} for d in found]))
        return codes.OK
    output = make_output()
    if not found:
        output.line("They don't differ.")
        return codes.OK
    output.table(("key", a, b), [(d.path, _text(d.a), _text(d.b)) for d in found])
    return codes.OK


def _shown(key: ConfigKey, whose: str, overrides: Sequence[str]) -> ShownKey:
    by_us = (each.partition("=")[0].strip() for each in overrides)
    if any(f"{key.path}.".startswith(f"{ours}.") for ours in by_us):
        source = "--set"
    elif not key.is_set or (whose == _RUN and key.is_default):
        source = "default"
    else:
        source = whose
    return ShownKey(key=key.path, value=key.value, source=source)


async def _read_all(
    sources: Sequence[str], overrides: Sequence[str], gateway: Gateway
) -> list[TrainConfig]:
    runs = [source for source in sources if not _is_file(source)]
    if not runs:
        return [read_config(Path(source), overrides) for source in sources]
    if overrides:
        raise ConfigurationError(
            f"There is no file {runs[0]}, and --set is for files",
            hint="A run has what it was submitted with.",
        )
    try:
        async with connected(gateway) as client:
            return [
                read_config(Path(source)) if _is_file(source) else await _of_run(client, source)
                for source in sources
            ]
    except (AuthenticationError, GatewayBusy, GatewayUnreachable) as error:
        raise type(error)(
            f"There is no file {runs[0]}, and the gateway can't be asked for such a run: {error.message}",
            hint=error.hint,
        ) from error


async def _of_run(client: Client, name: str) -> TrainConfig:
    try:
        run = await client.run(name)
    except NotFound as error:
        raise NotFound(
            f"There is no file and no run {name}", hint="`warren runs ls` lists your runs."
        ) from error
    if run.view.config is None:
        raise ConfigurationError(f"{run.id} is of a newer gateway; ask that one")
    return run.view.config


def _is_file(source: str) -> bool:
    """Whether it is there: a run may have the name of any."""
    path = Path(source).expanduser()
    return path.exists() and not path.is_dir()


async def _check(
    files: Sequence[Path], overrides: Sequence[str], gateway: Gateway | None
) -> list[CheckedFile]:
    found = [_checked_here(file, overrides) for file in files]
    valid = {n: config for n, (_, config) in enumerate(found) if config is not None}
    checked = [result for result, _ in found]
    if gateway is None or not valid:
        return checked
    try:
        async with connect(gateway.url, gateway.api_key, retry_s=0.0) as client:
            for number, config in valid.items():
                checked[number] = await _checked_there(client, files[number], config)
    except (AuthenticationError, GatewayBusy, GatewayUnreachable) as error:
        note = f"models, environments and data sets ({error.message})"
        for number in valid:
            checked[number] = checked[number].model_copy(update={"notes": (note,)})
    return checked


def _checked_here(file: Path, overrides: Sequence[str]) -> tuple[CheckedFile, TrainConfig | None]:
    try:
        config = read_config(file, overrides)
    except ConfigurationError as error:
        mistakes = tuple(error.details) or (error.message,)
        return CheckedFile(file=str(file), mistakes=mistakes, notes=()), None
    return CheckedFile(file=str(file), mistakes=(), notes=()), config


async def _checked_there(client: Client, file: Path, config: TrainConfig) -> CheckedFile:
    try:
        found = await client.check(config)
    except ConfigurationError as error:  # the gateway's schema is another one
        mistakes = tuple(error.details) or (error.message,)
        return CheckedFile(file=str(file), mistakes=mistakes, notes=())
    return CheckedFile(file=str(file), mistakes=found.mistakes, notes=found.notes)


def _tell(checked: CheckedFile) -> None:
    output = make_output()
    for mistake in checked.mistakes:
        print(f"{checked.file}: {mistake}", file=sys.stderr)
    if not checked.mistakes:
        output.line(f"{checked.file}: no mistakes found", "green")
    for note in checked.notes:
        output.line(f"{checked.file}: not checked: {note}", "dim")


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json_text.dumps(value)
