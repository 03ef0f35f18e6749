"""`warren metrics`: what a run reports, as a table, as lines that go on, or for other programs."""

import asyncio
import csv
import sys
from abc import ABC, abstractmethod
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs.runs import RunName
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.newest_metrics import Newest, figure
from warren.display.output import Output, make_output, print_json
from warren.errors import ConfigurationError
from warren.run import Run
from warren_schemas.http import MetricsView
from warren_schemas.tensorboard.layout import PINNED

CSV_COLUMNS = ("number", "at", "phase", "step", "version", "tag", "value")


def metrics(
    run: RunName,
    /,
    *,
    tag: Annotated[
        tuple[str, ...],
        Parameter(help="Only metrics that match this pattern, such as 'reward/*'; repeatable."),
    ] = (),
    follow: Annotated[bool, Parameter(help="Print a line per step, until the run ends.")] = False,
    csv: Annotated[bool, Parameter(help="Print CSV: one line per value.")] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Show a run's metrics: the latest values with explanations, or all of them for programs.

    For example:
        warren metrics last
        warren metrics last --tag 'reward/*' --tag 'time/*' --follow
        warren metrics last --csv > metrics.csv
    """
    if csv and json:
        raise ConfigurationError("give either --csv or --json, not both")
    output: _Shown = _Csv() if csv else _Json() if json else _Lines() if follow else _Table()
    tags = tag or (PINNED if isinstance(output, _Lines) else None)
    return asyncio.run(_print(run, tags, output, gateway, follow=follow))


async def _print(
    name: str, tags: tuple[str, ...] | None, shown: "_Shown", gateway: Gateway, *, follow: bool
) -> int:
    async with connected(gateway) as client:
        run = await client.run(name)
        async with aclosing(run.metrics(tags, follow=follow)) as rows:
            async for row in rows:
                shown.row(row)
    shown.end(run, tags)
    return codes.OK


class _Shown(ABC):
    """One form of the answer."""

    @abstractmethod
    def row(self, row: MetricsView) -> None: ...

    def end(self, run: Run, tags: tuple[str, ...] | None) -> None:  # noqa: B027 - most have none
        """All rows were shown."""


class _Json(_Shown):
    def row(self, row: MetricsView) -> None:
        print_json(row)


class _Csv(_Shown):
    def __init__(self) -> None:
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        self._writer.writerow(CSV_COLUMNS)

    def row(self, row: MetricsView) -> None:
        at = datetime.fromtimestamp(row.at_s, UTC).isoformat()
        for tag, value in row.metrics.items():
            self._writer.writerow((row.number, at, row.phase, row.step, row.version, tag, value))
        sys.stdout.flush()


class _Lines(_Shown):
    def __init__(self) -> None:
        self._output = make_output()

    def row(self, row: MetricsView) -> None:
        figures = (f"{tag} {figure(value)}" for tag, value in row.metrics.items())
        self._output.line(f"{row.phase} {row.step}  {'  '.join(figures)}")


class _Table(_Shown):
    def __init__(self) -> None:
        self._newest = Newest()

    def row(self, row: MetricsView) -> None:
        self._newest.note(row)

    def end(self, run: Run, tags: tuple[str, ...] | None) -> None:
        output: Output = make_output()
        if not self._newest.has_any:
            fitting = f" that fits {' or '.join(tags)}" if tags else ""
            output.line(f"{run.id} has reported nothing{fitting} yet.")
            return
        columns = ("tag", "value", "unit", "step", "what it is")
        output.table(columns, list(self._newest.lines()), right=("value", "step"))
        for sentence in self._newest.best():
            output.line(sentence)
        output.line("docs/metrics.md says what good and bad look like.", "dim")
