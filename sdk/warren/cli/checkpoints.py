"""`warren checkpoints ls`."""

import asyncio

from warren.cli import codes
from warren.cli.options import HERE, RETRY_S, AsJson, Gateway, GatewayOptions
from warren.cli.output import Output, make_output, print_json
from warren.cli.runs import RunName
from warren.cli.words import ago, count, decimal
from warren.client import connect
from warren_schemas.http import CheckpointList, CheckpointView


def ls(run: RunName, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List the checkpoints that are kept of a run, the oldest first.

    `resume_from` in a config takes their names, and so does `warren export RUN@NAME`.

    For example:
        warren checkpoints ls last
    """
    return asyncio.run(_ls(run, gateway, as_json=json))


async def _ls(name: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connect(gateway.url, gateway.api_key, retry_s=RETRY_S) as client:
        run = await client.run(name)
        found = await run.checkpoints()
    if as_json:
        print_json(found)
    else:
        print_checkpoints(found, make_output())
    return codes.OK


def print_checkpoints(found: CheckpointList, output: Output) -> None:
    if not found.checkpoints:
        output.line("No checkpoints yet; checkpoint.every_steps says when there will be one.")
        return
    output.table(
        ["checkpoint", "version", "reward", "bytes", "made", "lies at"],
        [_row(view) for view in found.checkpoints],
        right=["version", "reward", "bytes"],
    )


def _row(view: CheckpointView) -> tuple[str, ...]:
    reward, size, made = decimal(view.reward), count(view.size_bytes), ago(view.created_s)
    return (view.name, str(view.version), reward, size, made, view.url)
