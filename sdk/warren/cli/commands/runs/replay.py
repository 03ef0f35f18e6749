"""`warren replay`."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs.runs import RunName
from warren.cli.commands.runs.trajectories import (
    AllAttempts,
    Follow,
    From,
    Limit,
    To,
    Wanted,
    export_or_look,
)
from warren.cli.connecting import connected
from warren.cli.follow import follow as follow_run
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.client import Client
from warren.configs import read_config, read_filter
from warren.datasets.handle import Dataset
from warren.display.output import make_output, print_json
from warren.errors import ConfigurationError
from warren.run import Run
from warren.streams.recording import Beginning, parse_beginning
from warren_schemas.config import RecordingFilter, TrainConfig

Into = Annotated[
    Path | None, Parameter(help="YAML or TOML config of a run that trains on the trajectories.")
]
Look = Annotated[bool, Parameter(help="Page through the trajectories.")]
Sets = Annotated[
    tuple[str, ...],
    Parameter(name="--set", help="KEY=VALUE that overrides the --into file; repeatable."),
]
Also = Annotated[
    tuple[str, ...],
    Parameter(help="With --into: a run whose recording comes after it; repeatable."),
]
Where = Annotated[
    tuple[str, ...],
    Parameter(help="With --into: KEY=VALUE that groups must meet, min_reward=0.5; repeatable."),
]
Epochs = Annotated[int | None, Parameter(help="With --into: number of epochs (default: 1).")]
ShuffleWindow = Annotated[
    int | None, Parameter(help="With --into: size of the shuffle window, in groups.")
]
FromArchive = Annotated[
    bool, Parameter(help="With --into: read the archive of the run, not its stream.")
]
ScoreAnew = Annotated[
    bool,
    Parameter(
        help="With --into: the environments of the config reward the recorded answers anew, on env workers."
    ),
]
OfDataset = Annotated[
    str | None,
    Parameter(name="--dataset", help="With --into: uploaded trajectories, in place of RUN."),
]
Detach = Annotated[bool, Parameter(help="With --into: print the new run's id and exit.")]


@dataclass(frozen=True, slots=True)
class _Source:
    """What is trained on."""

    run: str | None
    dataset: str | None
    also: Sequence[str]
    start: Beginning
    where: RecordingFilter
    epochs: int | None
    shuffle_window: int | None
    from_archive: bool
    score: bool


def replay(
    run: RunName | None = None,
    /,
    *,
    into: Into = None,
    to: To = None,
    look: Look = False,
    from_: From = None,
    set_: Sets = (),
    also: Also = (),
    where: Where = (),
    epochs: Epochs = None,
    shuffle_window: ShuffleWindow = None,
    from_archive: FromArchive = False,
    score: ScoreAnew = False,
    dataset: OfDataset = None,
    limit: Limit = None,
    follow: Follow = False,
    all_attempts: AllAttempts = False,
    detach: Detach = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Train on the recorded trajectories of a run, export them, or page through them.

    A replay (--into) trains a new model without samplers, and without environments unless they are to
    score anew (--score), with importance sampling by the recorded logprobs. With a config that trains nothing it
    evaluates (see `warren eval recorded`). It also follows a run that is still running.

    For example:
        warren replay last --into config.yaml --set algorithm.loss=importance_sampling
        warren replay monday --also tuesday --where min_reward=0.5 --into config.yaml
        warren replay last --into config.yaml --epochs 3 --shuffle-window 500
        warren replay --dataset monday --into config.yaml
        warren replay last --score --into other_rewards.yaml
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
        _refuse_unused(config.left_out_of_replay(is_scored=score), set_)
        chosen = read_filter(where)
        source = _Source(
            run, dataset, also, start, chosen, epochs, shuffle_window, from_archive, score
        )
        return asyncio.run(_replay(source, config, gateway, detach=detach, as_json=json))
    of_training = {"--also": also, "--where": where, "--set": set_, "--detach": detach}
    of_training |= {"--epochs": epochs is not None, "--shuffle-window": shuffle_window is not None}
    of_training |= {"--from-archive": from_archive, "--dataset": dataset is not None}
    of_training |= {"--score": score}
    name = _run_to_read(of_training, run)
    wanted = Wanted(start, limit, follow, all_attempts)
    return export_or_look(name, to, wanted, gateway, as_json=json)


def _require_one_source(run: str | None, dataset: str | None) -> None:
    if (run is None) == (dataset is None):
        raise ConfigurationError(
            "warren replay needs either a RUN or --dataset", hint="See `warren replay --help`."
        )


def _run_to_read(options: Mapping[str, object], run: str | None) -> str:
    """Where it is not trained on, so these options have no effect."""
    for option, given in options.items():
        if given:
            raise ConfigurationError(f"{option} needs --into")
    if run is None:
        raise ConfigurationError("--to and --look need a RUN")
    return run


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


def _refuse_unused(unused: Sequence[str], overrides: Sequence[str]) -> None:
    """A file may be that of the run that is replayed; what was asked for besides must have an effect."""
    for override in overrides:
        key = override.partition("=")[0].strip()
        if paths := [path for path in unused if f"{path}.".startswith(f"{key}.")]:
            named = "" if paths == [key] else f": {', '.join(paths)}"
            raise ConfigurationError(
                f"--set {key}{named} has no effect in a replay",
                hint="What was sampled, how and when, stands in the recording, and the rewards too unless --score has"
                " them given anew; leave it out.",
            )


async def _replayed(client: Client, source: _Source) -> Run | Dataset:
    """Raises `ConfigurationError`."""
    if source.dataset is not None:
        return await client.datasets.get(source.dataset)
    return await client.run(source.run or "last")


async def _replay(
    source: _Source,
    config: TrainConfig,
    gateway: Gateway,
    *,
    detach: bool,
    as_json: bool,
) -> int:
    _require_one_source(source.run, source.dataset)
    output = make_output()
    async with connected(gateway) as client:
        run = await client.replay(
            await _replayed(client, source),
            config,
            from_=source.start,
            also=[await client.run(name) for name in source.also],
            where=source.where,
            epochs=1 if source.epochs is None else source.epochs,
            shuffle_window=source.shuffle_window,
            from_archive=source.from_archive,
            score=source.score,
        )
        if not detach:
            if not as_json:
                if unused := config.left_out_of_replay(is_scored=source.score):
                    output.line(f"A replay has no use for {', '.join(unused)}: left out.", "dim")
                output.line(f"Submitted {run.id}; Ctrl-C lets go of it, and it goes on.", "dim")
            return await follow_run(client, run, output, as_json=as_json)
    if as_json:
        print_json(run.view)
    else:
        output.line(run.id)
    return codes.OK
