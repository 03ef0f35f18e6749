"""`warren eval show` and `compare`: results of evaluations, in all, by category or by task."""

import asyncio
from typing import Annotated, Literal

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs.runs import RunName
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.client import Client
from warren.comparing import Comparison
from warren.comparing import compare as compared
from warren.display.evaluation import (
    print_compared_tasks,
    print_comparison,
    print_report,
    print_tasks,
)
from warren.display.output import make_output, print_json
from warren.errors import ConfigurationError
from warren_schemas.base import Frozen
from warren_schemas.http import EvaluationReport

Evaluated = Annotated[
    str,
    Parameter(
        name="RUN",
        help="Id, end of the id, name or `last`, optionally with :NUMBER of an evaluation.",
    ),
]
By = Annotated[
    Literal["category", "task"], Parameter(help="`task` prints a line for each task, by its id.")
]
SolvedAt = Annotated[float, Parameter(help="Reward that solves a task, for pass@k.")]


class Comparisons(Frozen):
    """What `--json` prints."""

    comparisons: tuple[Comparison, ...]


def show(
    run: Evaluated,
    /,
    *,
    by: By = "category",
    solved_at: SolvedAt = 1.0,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Show the results of a run's newest evaluation, or of RUN:NUMBER, in all and by category or task.

    For example:
        warren eval show last
        warren eval show last --by task
        warren eval show last:1 --solved-at 0.5
        warren eval show last --json
    """
    return asyncio.run(_show(run, solved_at, gateway, by=by, as_json=json))


def compare(
    baseline: Evaluated,
    /,
    *others: RunName,
    by: By = "category",
    solved_at: SolvedAt = 1.0,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Compare evaluations with the first one, task by task, with an interval and a p-value.

    Tasks are paired: the difference of each task's mean rewards counts once. Each is the newest evaluation of a
    run, or RUN:NUMBER. `--by task` says which tasks are solved by now, and which got worse.

    For example:
        warren eval compare guess-base guess-lora
        warren eval compare last:1 last:4
        warren eval compare last:1 last:4 --by task
    """
    if not others:
        raise ConfigurationError(
            "Nothing to compare with", hint="Name two runs, or RUN:NUMBER twice."
        )
    return asyncio.run(_compare(baseline, others, solved_at, gateway, by=by, as_json=json))


async def _show(name: str, solved_at: float, gateway: Gateway, *, by: str, as_json: bool) -> int:
    async with connected(gateway) as client:
        print_results(await _report(client, name, solved_at), by=by, as_json=as_json)
    return codes.OK


async def _compare(
    baseline: str,
    others: tuple[str, ...],
    solved_at: float,
    gateway: Gateway,
    *,
    by: str,
    as_json: bool,
) -> int:
    async with connected(gateway) as client:
        first = await _report(client, baseline, solved_at)
        found = [compared(first, await _report(client, other, solved_at)) for other in others]
    if as_json:
        print_json(Comparisons(comparisons=tuple(found)))
    else:
        show = print_compared_tasks if by == "task" else print_comparison
        for each in found:
            show(each, make_output())
    return codes.OK


async def _report(client: Client, name: str, solved_at: float) -> EvaluationReport:
    before, _, number = name.rpartition(":")
    if before and number.isdecimal():
        return await (await client.run(before)).evaluation(int(number), solved_at=solved_at)
    return await (await client.run(name)).evaluation(solved_at=solved_at)


def print_results(report: EvaluationReport, *, by: str, as_json: bool) -> None:
    if as_json:
        print_json(report)
    elif by == "task":
        print_tasks(report, make_output())
    else:
        print_report(report, make_output())
