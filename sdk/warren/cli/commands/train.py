"""`warren train`."""

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.dry_run import check
from warren.cli.follow import follow
from warren.cli.options import HERE, RETRY_S, AsJson, Gateway, GatewayOptions
from warren.client import connect
from warren.configs import read_config
from warren.display.output import Output, is_terminal, make_output, print_json
from warren_schemas.config import TrainConfig


def train(
    config: Annotated[Path, Parameter(help="YAML file; see examples/guess.yaml.")],
    /,
    *,
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="KEY=VALUE that overrides the file; repeatable."),
    ] = (),
    detach: Annotated[bool, Parameter(help="Submit, print the run's id and exit.")] = False,
    priority: Annotated[
        int,
        Parameter(help="Higher goes first in the queue; above 0 takes an admin's key."),
    ] = 0,
    dry_run: Annotated[
        bool,
        Parameter(help="Check the config here and at the gateway; print it in full with its cost."),
    ] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Submit a run and follow it until it ends.

    Ctrl-C detaches and the run goes on; `warren runs show ID --follow` reattaches to it.

    For example:
        warren train examples/guess.yaml
        warren train examples/guess.yaml --set seed=2 --set limits.steps=400
        warren train examples/guess.yaml --detach
    """
    output = make_output()
    checked = read_config(config, set_)
    if dry_run:
        return asyncio.run(check(config, checked, output, gateway, as_json=json))
    return asyncio.run(_submit(checked, output, gateway, priority, detach=detach, as_json=json))


async def _submit(
    config: TrainConfig,
    output: Output,
    gateway: Gateway,
    priority: int,
    *,
    detach: bool,
    as_json: bool,
) -> int:
    async with connect(gateway.url, gateway.api_key, retry_s=RETRY_S) as client:
        run = await client.train(config, priority=priority)
        if not detach:
            if not as_json:
                output.line(f"Submitted {run.id}; Ctrl-C lets go of it, and it goes on.", "dim")
            return await follow(client, run, output, as_json=as_json)
        if as_json:
            print_json(run.view)
        else:
            output.line(run.id)
            if is_terminal():  # a script wants the id alone
                output.line(f"Follow it with: warren runs show {run.id} --follow", "dim")
        return codes.OK
