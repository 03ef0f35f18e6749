"""`warren trajectories`: what a run recorded, paged through or exported."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs.runs import RunName
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.output import is_terminal, make_output, print_json
from warren.display.trajectory import look as lines_of
from warren.run import Run
from warren.streams.export import export, writer_for
from warren.streams.recording import Beginning, parse_beginning
from warren_schemas.http import TrajectoryView

From = Annotated[
    str | None,
    Parameter(name="--from", help="Offset, time (2026-03-01T12:00) or how long ago (2h)."),
]
To = Annotated[Path | None, Parameter(help="File to export to: .jsonl, .parquet or .traces.jsonl.")]
Limit = Annotated[int | None, Parameter(help="Maximum number of trajectories.")]
Follow = Annotated[bool, Parameter(help="Continue until the run ends.")]
AllAttempts = Annotated[
    bool,
    Parameter(help="Every recorded attempt, superseded and undecided ones too."),
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which trajectories."""

    start: Beginning
    limit: int | None
    follow: bool
    all_attempts: bool

    def of(self, run: Run) -> AsyncGenerator[TrajectoryView]:
        return run.trajectories(
            from_=self.start,
            limit=self.limit,
            follow=self.follow,
            all_attempts=self.all_attempts,
        )


def trajectories(
    run: RunName,
    /,
    *,
    to: To = None,
    from_: From = None,
    limit: Limit = None,
    follow: Follow = False,
    all_attempts: AllAttempts = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Page through a run's trajectories: Enter shows the next one, q quits.

    In a pipe, print all of them. With --to, export them to a file, one row each. Each episode comes
    once, when the run has consumed it. A file that ends in .traces.jsonl has OpenEnv's TrainingTraces.

    For example:
        warren trajectories last
        warren trajectories last --to trajectories.parquet
        warren trajectories last --from 15m --follow
        warren trajectories last --json | head -1
    """
    start = parse_beginning(from_) if from_ else None
    wanted = Wanted(start, limit, follow, all_attempts)
    return export_or_look(run, to, wanted, gateway, as_json=json)


def export_or_look(
    run: str, to: Path | None, wanted: Wanted, gateway: Gateway, *, as_json: bool
) -> int:
    """Into a file if one is named."""
    if to is not None:
        writer_for(to)  # before anything is read
        return asyncio.run(_export(run, to, gateway, wanted, as_json=as_json))
    return asyncio.run(_look(run, gateway, wanted, as_json=as_json))


async def _export(
    name: str,
    path: Path,
    gateway: Gateway,
    wanted: Wanted,
    *,
    as_json: bool,
) -> int:
    async with connected(gateway) as client:
        run = await client.run(name)
        async with aclosing(wanted.of(run)) as found:
            written = await export(found, path)
    if not as_json:
        make_output().line(f"{written.n_rows} trajectories of {run.id} lie in {path}")
        if written.n_left_out:
            make_output().line(
                f"{written.n_left_out} are left out: they failed, or have no turn that a trace takes."
            )
    return codes.OK


async def _look(
    name: str,
    gateway: Gateway,
    wanted: Wanted,
    *,
    as_json: bool,
) -> int:
    async with connected(gateway) as client:
        run = await client.run(name)
        n_shown = await _show(run, wanted, as_json=as_json)
    if not n_shown and not as_json:
        make_output().line(f"{run.id} has recorded nothing there yet.")
    return codes.OK


async def _show(run: Run, wanted: Wanted, *, as_json: bool) -> int:
    is_paged = is_terminal() and sys.stdin.isatty() and not as_json
    n_shown = 0
    async with aclosing(wanted.of(run)) as found:
        async for view in found:
            if is_paged and n_shown and await _answer() == "q":
                break
            _print(view, as_json=as_json)
            n_shown += 1
    return n_shown


def _print(view: TrajectoryView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    output = make_output()
    for text, style in lines_of(view):
        output.line(text, style)


async def _answer() -> str:
    """A line from the keyboard, without a thread that Ctrl-C could not end."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()
    print("-- Enter: next, q: leave -- ", end="", flush=True)
    loop.add_reader(sys.stdin, lambda: typed.done() or typed.set_result(sys.stdin.readline()))
    try:
        line = await typed
    finally:
        loop.remove_reader(sys.stdin)
    return line.strip().lower() if line else "q"
