"""`warren logs`: what coordinator, trainer, samplers and env workers logged for a run."""

import asyncio
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Literal

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs.runs import RunName
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.output import Output, make_output, print_json
from warren.streams.logs import LogEntry
from warren_schemas.events import LogLevel

_STYLES = {LogLevel.INFO: "", LogLevel.WARNING: "yellow", LogLevel.ERROR: "red"}
_LEVELS = tuple(LogLevel)


def logs(
    run: RunName,
    /,
    *,
    follow: Annotated[
        bool, Parameter(alias="-f", help="Follow the log until the run ends.")
    ] = False,
    level: Annotated[
        Literal["info", "warning", "error"],
        Parameter(help="Only lines of this level or above, and how many are missing."),
    ] = "info",
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Show what coordinator, trainer, samplers and env workers said while they worked for a run.

    For example:
        warren logs last
        warren logs last -f
        warren logs last --level warning --json
    """
    return asyncio.run(_print(run, LogLevel(level), gateway, follow=follow, as_json=json))


async def _print(
    name: str, level: LogLevel, gateway: Gateway, *, follow: bool, as_json: bool
) -> int:
    output = make_output()
    async with connected(gateway) as client:
        run = await client.run(name)
        async with aclosing(run.logs(follow=follow)) as entries:
            async for entry in entries:
                is_shown = _LEVELS.index(entry.level) >= _LEVELS.index(level)
                if not is_shown and not entry.n_left_out:  # those may be of any level
                    continue
                if as_json:
                    print_json(entry)
                else:
                    _show(entry, output)
    return codes.OK


def _show(entry: LogEntry, output: Output) -> None:
    at = datetime.fromtimestamp(entry.at_s).strftime("%Y-%m-%d %H:%M:%S")
    output.line(
        f"{at}  {entry.component} {_short(entry.worker)}  {entry.text}", _STYLES[entry.level]
    )


def _short(worker: str) -> str:
    """The end of an id, which is what tells it from others."""
    return worker.rpartition("_")[2][-6:]
