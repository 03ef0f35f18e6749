"""`warren doctor`: what is fine, what is not, and what mends it."""

import asyncio
import json as jsonlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.system.doctor_checks import Check, Level, run_checks
from warren.cli.options import HERE, AsJson, GatewayOptions
from warren.display.output import Output, make_output

_MARKS = {Level.OK: ("ok  ", "green"), Level.NOTE: ("note", "yellow"), Level.BAD: ("BAD ", "red")}


def doctor(
    *,
    broker: Annotated[str | None, Parameter(help="AMQP URL of a broker to check too.")] = None,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Check this machine and the gateway, and say how to fix each problem.

    For example:
        warren doctor
        warren doctor --url https://warren.example.org --broker amqp://localhost
    """
    checks = asyncio.run(run_checks(gateway.url, gateway.api_key, broker))
    if json:
        print(jsonlib.dumps({"checks": [asdict(check) for check in checks]}))
    else:
        _print(checks, make_output())
    is_bad = any(check.level is Level.BAD for check in checks)
    return codes.FAILED if is_bad else codes.OK


def _print(checks: Sequence[Check], output: Output) -> None:
    for check in checks:
        mark, style = _MARKS[check.level]
        output.line(f"{mark}  {check.name.ljust(12)} {check.found}", style)
        if check.mend:
            output.line(f"{' ' * 19}-> {check.mend}")
