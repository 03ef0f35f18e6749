"""`warren train`."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs.dry_run import check, in_yaml
from warren.cli.commands.runs.sweeps import SweepWanted, refuse_beside_sweep, submit_sweep
from warren.cli.connecting import connected
from warren.cli.follow import follow
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.client import Client
from warren.configs import read_config, read_openreward
from warren.display.output import Output, is_terminal, make_output, print_json
from warren.errors import ConfigurationError
from warren.run import Run
from warren_schemas.config import TrainConfig
from warren_schemas.http.runs import OnDisconnect

EndsWithUs = Annotated[
    OnDisconnect,
    Parameter(
        help="`cancel` saves and cancels the run when this command ends, by Ctrl-C or however."
    ),
]
LeaseS = Annotated[
    float | None, Parameter(help="With `cancel`: how long this command may be gone (60 s).")
]

Overrides = Annotated[
    tuple[str, ...], Parameter(name="--set", help="KEY=VALUE that overrides the file; repeatable.")
]
DryRun = Annotated[
    bool,
    Parameter(help="Check the config here and at the gateway; print it in full with its cost."),
]
Swept = Annotated[
    tuple[str, ...],
    Parameter(help="KEY=VALUE,VALUE: a run for each combination of values; repeatable."),
]
SweepName = Annotated[
    str | None,
    Parameter(help="With --sweep: what the group is called; the same name gives the same runs."),
]


def train(
    config: Annotated[Path, Parameter(help="YAML or TOML file; see examples/guess.yaml.")],
    /,
    *,
    set_: Overrides = (),
    sweep: Swept = (),
    sweep_name: SweepName = None,
    detach: Annotated[bool, Parameter(help="Submit, print the run's id and exit.")] = False,
    priority: Annotated[
        int,
        Parameter(help="Higher goes first in the queue; above 0 takes an admin's key."),
    ] = 0,
    on_disconnect: EndsWithUs = "detach",
    client_lease_s: LeaseS = None,
    dry_run: DryRun = False,
    from_: Annotated[
        Literal["openreward"] | None,
        Parameter(name="--from", help="Whose config the file is, if not Warren's own."),
    ] = None,
    print_: Annotated[
        bool,
        Parameter(
            name="--print", negative=(), help="Print the config in full, and submit nothing."
        ),
    ] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Submit a run and follow it until it ends.

    Ctrl-C detaches and the run goes on; `warren runs show ID --follow` reattaches to it. With
    --on-disconnect cancel, Ctrl-C saves and cancels it, and so does the end of this command, however it is killed.

    For example:
        warren train examples/guess.yaml
        warren train examples/guess.yaml --set seed=2 --set limits.steps=400
        warren train examples/guess.yaml --sweep optimizer.learning_rate=1e-4,3e-4 --sweep seed=1,2
        warren train examples/guess.yaml --detach
        warren train tinker-openreward.yaml --from openreward --print
        warren train examples/guess.yaml --on-disconnect cancel
    """
    _require_followed(detach, on_disconnect)
    if sweep or sweep_name is not None:
        refuse_beside_sweep(sweep, detach, from_ or print_ or on_disconnect != "detach")
        wanted = SweepWanted(config, set_, sweep, sweep_name, priority)
        return submit_sweep(wanted, gateway, is_dry=dry_run, as_json=json)
    output = make_output()
    checked = read_config(config, set_) if from_ is None else _taken_over(config, set_)
    if print_:
        return _print(checked, output, as_json=json)
    if dry_run:
        return asyncio.run(check(config, checked, output, gateway, as_json=json))
    ask = partial(
        Client.train,
        config=checked,
        priority=priority,
        on_disconnect=on_disconnect,
        client_lease_s=client_lease_s,
    )
    return asyncio.run(submit(ask, output, gateway, detach=detach, as_json=json))


def _taken_over(config: Path, overrides: Sequence[str]) -> TrainConfig:
    """What differs from the file is told on standard error."""
    checked, told = read_openreward(config, overrides, url=os.environ.get("OPENREWARD_SESSION_URL"))
    for line in told:
        print(f"# {line}", file=sys.stderr)
    return checked


def _require_followed(detach: bool, on_disconnect: OnDisconnect) -> None:
    if detach and on_disconnect == "cancel":
        raise ConfigurationError(
            "--detach ends this command, and --on-disconnect cancel the run with it",
            hint="Leave one of them out.",
        )


def _print(config: TrainConfig, output: Output, *, as_json: bool) -> int:
    if as_json:
        print_json(config)
    else:
        output.line(in_yaml(config))
    return codes.OK


async def submit(
    ask: Callable[[Client], Coroutine[object, None, Run]],
    output: Output,
    gateway: Gateway,
    *,
    detach: bool,
    as_json: bool,
) -> int:
    """Submit the run and follow it, or print its id."""
    async with connected(gateway) as client:
        run = await ask(client)
        if not detach:
            if not as_json:
                output.line(f"Submitted {run.id}; Ctrl-C {_on_interrupt(run)}.", "dim")
            return await follow(client, run, output, as_json=as_json, is_own=True)
        if as_json:
            print_json(run.view)
        else:
            output.line(run.id)
            if is_terminal():  # a script wants the id alone
                output.line(f"Follow it with: warren runs show {run.id} --follow", "dim")
        return codes.OK


def _on_interrupt(run: Run) -> str:
    ends = run.view.on_disconnect == "cancel"
    return "saves and cancels it" if ends else "lets go of it, and it goes on"
