"""`warren replay` and `warren trajectories`."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs.runs import RunName
from warren.cli.connecting import connected
from warren.cli.follow import follow as follow_run
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.configs import read_config, read_filter
from warren.display.output import is_terminal, make_output, print_json
from warren.display.trajectory import look as lines_of
from warren.errors import ConfigurationError
from warren.run import Run
from warren.streams.export import export, writer_for
from warren.streams.recording import Beginning, parse_beginning
from warren_schemas.config import RecordingFilter, TrainConfig
from warren_schemas.http import TrajectoryView

From = Annotated[
    str | None,
    Parameter(name="--from", help="Offset, time (2026-03-01T12:00) or how long ago (2h)."),
]
To = Annotated[Path | None, Parameter(help="File to export to: .jsonl or .parquet.")]
Limit = Annotated[int | None, Parameter(help="Maximum number of trajectories.")]
Follow = Annotated[bool, Parameter(help="Continue until the run ends.")]
AllAttempts = Annotated[
    bool,
    Parameter(help="Every recorded attempt, superseded and undecided ones too."),
]
Also = Annotated[
    tuple[str, ...],
    Parameter(help="With --into: a run whose recording comes after it; repeatable."),
]
Where = Annotated[
    tuple[str, ...],
    Parameter(help="With --into: KEY=VALUE that groups must meet, min_reward=0.5; repeatable."),
]


@dataclass(frozen=True, slots=True)
class _Wanted:
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


@dataclass(frozen=True, slots=True)
class _Source:
    """What is trained on."""

    run: str
    also: Sequence[str]
    start: Beginning
    where: RecordingFilter


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
    once, when the run has consumed it.

    For example:
        warren trajectories last
        warren trajectories last --to trajectories.parquet
        warren trajectories last --from 15m --follow
        warren trajectories last --json | head -1
    """
    start = parse_beginning(from_) if from_ else None
    wanted = _Wanted(start, limit, follow, all_attempts)
    if to is not None:
        writer_for(to)  # before anything is read
        return asyncio.run(_export(run, to, gateway, wanted, as_json=json))
    return asyncio.run(_look(run, gateway, wanted, as_json=json))


def replay(
    run: RunName,
    /,
    *,
    into: Annotated[
        Path | None, Parameter(help="YAML or TOML config of a run that trains on the trajectories.")
    ] = None,
    to: To = None,
    look: Annotated[bool, Parameter(help="Page through the trajectories.")] = False,
    from_: From = None,
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="KEY=VALUE that overrides the --into file; repeatable."),
    ] = (),
    also: Also = (),
    where: Where = (),
    limit: Limit = None,
    follow: Follow = False,
    all_attempts: AllAttempts = False,
    detach: Annotated[
        bool, Parameter(help="With --into: print the new run's id and exit.")
    ] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Train on the recorded trajectories of a run, export them, or page through them.

    A replay (--into) trains a new model without samplers or environments, with importance sampling by
    the recorded logprobs. It also follows a run that is still running.

    For example:
        warren replay last --into config.yaml --set algorithm.loss=importance_sampling
        warren replay monday --also tuesday --where min_reward=0.5 --into config.yaml
        warren replay last --to trajectories.parquet
        warren replay last --look --from 15m
    """
    if [into is not None, to is not None, look].count(True) != 1:
        raise ConfigurationError(
            "warren replay needs one of --into, --to and --look", hint="See `warren replay --help`."
        )
    start = parse_beginning(from_) if from_ else None
    if into is not None:
        _refuse_reading_options(limit, all_attempts=all_attempts)
        config = read_config(into, set_)
        _refuse_unused(config, set_)
        source = _Source(run, also, start, read_filter(where))
        return asyncio.run(_replay(source, config, gateway, detach=detach, as_json=json))
    if also or where:
        raise ConfigurationError(f"{'--also' if also else '--where'} needs --into")
    if set_:
        raise ConfigurationError("--set needs --into")
    if detach:
        raise ConfigurationError("--detach needs --into")
    wanted = _Wanted(start, limit, follow, all_attempts)
    if to is not None:
        writer_for(to)  # before anything is read
        return asyncio.run(_export(run, to, gateway, wanted, as_json=json))
    return asyncio.run(_look(run, gateway, wanted, as_json=json))


def _refuse_reading_options(limit: int | None, *, all_attempts: bool) -> None:
    if all_attempts:
        raise ConfigurationError(
            "--all-attempts goes with --to and --look", hint="A replay trains on each episode once."
        )
    if limit is not None:
        raise ConfigurationError(
            "--limit goes with --to and --look",
            hint="limits.steps in the config says how long a replay trains.",
        )


def _refuse_unused(config: TrainConfig, overrides: Sequence[str]) -> None:
    """A file may be that of the run that is replayed; what was asked for besides must have an effect."""
    for override in overrides:
        key = override.partition("=")[0].strip()
        if any(f"{path}.".startswith(f"{key}.") for path in config.of_live_episodes()):
            raise ConfigurationError(
                f"--set {key} has no effect in a replay",
                hint="What was sampled, how and when, stands in the recording; leave it out.",
            )


async def _replay(
    source: _Source,
    config: TrainConfig,
    gateway: Gateway,
    *,
    detach: bool,
    as_json: bool,
) -> int:
    output = make_output()
    async with connected(gateway) as client:
        run = await client.replay(
            await client.run(source.run),
            config,
            from_=source.start,
            also=[await client.run(name) for name in source.also],
            where=source.where,
        )
        if not detach:
            if not as_json:
                if unused := config.of_live_episodes():
                    output.line(f"A replay has no use for {', '.join(unused)}: left out.", "dim")
                output.line(f"Submitted {run.id}; Ctrl-C lets go of it, and it goes on.", "dim")
            return await follow_run(client, run, output, as_json=as_json)
    if as_json:
        print_json(run.view)
    else:
        output.line(run.id)
    return codes.OK


async def _export(
    name: str,
    path: Path,
    gateway: Gateway,
    wanted: _Wanted,
    *,
    as_json: bool,
) -> int:
    async with connected(gateway) as client:
        run = await client.run(name)
        async with aclosing(wanted.of(run)) as found:
            n_written = await export(found, path)
    if not as_json:
        make_output().line(f"{n_written} trajectories of {run.id} lie in {path}")
    return codes.OK


async def _look(
    name: str,
    gateway: Gateway,
    wanted: _Wanted,
    *,
    as_json: bool,
) -> int:
    async with connected(gateway) as client:
        run = await client.run(name)
        n_shown = await _show(run, wanted, as_json=as_json)
    if not n_shown and not as_json:
        make_output().line(f"{run.id} has recorded nothing there yet.")
    return codes.OK


async def _show(run: Run, wanted: _Wanted, *, as_json: bool) -> int:
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
