"""`warren checkpoints ls`."""

import asyncio

from warren.cli import codes
from warren.cli.options import HERE, RETRY_S, AsJson, Gateway, GatewayOptions
from warren.cli.output import Output, make_output, print_json
from warren.cli.runs import RunName
from warren.cli.select import find_run
from warren.cli.words import ago, count, decimal
from warren.client import connect
from warren_schemas.http import CheckpointList, CheckpointView


def ls(run: RunName, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List the checkpoints and policies that are kept of a run, the oldest first.

    `resume_from` in a config takes the names of checkpoints, and so does `warren export RUN@NAME`;
    `warren export RUN@STEP` takes the policy in force after that step.

    For example:
        warren checkpoints ls last
    """
    return asyncio.run(_ls(run, gateway, as_json=json))


async def _ls(name: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connect(gateway.url, gateway.api_key, retry_s=RETRY_S) as client:
        run = await find_run(client, name)
        found = await run.checkpoints()
    if as_json:
        print_json(found)
    else:
        print_checkpoints(found, make_output())
    return codes.OK


def print_checkpoints(found: CheckpointList, output: Output) -> None:
    if found.checkpoints:
        output.table(
            ["checkpoint", "step", "policy version", "reward", "bytes", "made", "lies at"],
            [_row(view) for view in found.checkpoints],
            right=["step", "policy version", "reward", "bytes"],
        )
    else:
        output.line("No checkpoints yet; checkpoint.every_steps says when there will be one.")
    if found.policies:
        first, last = found.policies[0].step, found.step
        steps = f"step {last}" if first == last else f"steps {first} to {last}"
        output.line(f"The policies after {steps} are kept as well: warren export RUN@STEP")


def _row(view: CheckpointView) -> tuple[str, ...]:
    reward, size, made = decimal(view.reward), count(view.size_bytes), ago(view.created_s)
    return (view.name, str(view.step), str(view.version), reward, size, made, view.url)
