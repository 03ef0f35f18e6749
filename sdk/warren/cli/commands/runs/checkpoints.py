"""List, compare and download the checkpoints of a run.

For example:
    warren checkpoints ls last
    warren checkpoints metrics last
    warren checkpoints download last --to my-policy
"""

import asyncio
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs.runs import RunName
from warren.cli.connecting import RETRY_S, connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.newest_metrics import figure
from warren.display.output import Output, make_output, print_json
from warren.display.words import ago, count, decimal
from warren_schemas.http import (
    CheckpointList,
    CheckpointMetricsList,
    CheckpointMetricsView,
    CheckpointView,
)
from warren_schemas.metrics.registry import find

__all__ = ["download", "ls", "metrics"]

_TAGS = ("policy/kl_k3", "policy/entropy")
_NONE_YET = "No checkpoints yet; checkpoint.every_steps says when there will be one."


def ls(run: RunName, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List the checkpoints and policies of a run, oldest first.

    Use a checkpoint's name in `resume_from` or in `warren export RUN@NAME --to FOLDER`;
    `warren export RUN@STEP --to FOLDER` exports the policy after that step.

    For example:
        warren checkpoints ls last
    """
    return asyncio.run(_ls(run, gateway, as_json=json))


def download(
    run: Annotated[
        str,
        Parameter(
            name="RUN",
            help="Id, end of the id, name or `last`, optionally with @STEP, @vVERSION (of the policy) or @CHECKPOINT.",
        ),
    ],
    /,
    *,
    to: Annotated[Path, Parameter(help="Target folder; must not exist yet.")],
    gateway: GatewayOptions = HERE,
) -> int:
    """Download the files of a checkpoint or a policy through the gateway, and verify them.

    RUN is the newest policy, RUN@400 the policy after step 400, RUN@v400 policy version 400, RUN@step-000400 the
    checkpoint of that name. Run the same command again to resume an interrupted download.

    For example:
        warren checkpoints download last@step-000400 --to my-checkpoint
    """
    return asyncio.run(_download(run, to, gateway))


def metrics(
    run: RunName,
    /,
    *,
    tag: Annotated[
        tuple[str, ...],
        Parameter(help="Show metrics that match this pattern, such as 'reward/*'; repeatable."),
    ] = _TAGS,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Compare the checkpoints of a run, oldest first: rewards, evaluations and metrics of each.

    `reward` is the mean of sampled episodes of up to 16 steps before a checkpoint; `evaluated before`
    and `evaluated after` are the nearest evaluations of its policy version or an older and a newer one.

    For example:
        warren checkpoints metrics last
        warren checkpoints metrics last --tag 'reward/*'
    """
    return asyncio.run(_metrics(run, tag, gateway, as_json=json))


async def _metrics(name: str, tags: tuple[str, ...], gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        run = await client.run(name, trained=True)
        found = await run.checkpoint_metrics()
    if as_json:
        print_json(found)
    else:
        print_checkpoint_metrics(found, tags, make_output())
    return codes.OK


def print_checkpoint_metrics(
    found: CheckpointMetricsList, tags: Sequence[str], output: Output
) -> None:
    if not found.checkpoints:
        output.line(_NONE_YET)
        return
    reported = sorted({tag for view in found.checkpoints for tag in view.metrics})
    shown = [tag for tag in reported if any(fnmatchcase(tag, pattern) for pattern in tags)]
    columns = [
        "checkpoint",
        "step",
        "policy version",
        "reward",
        "evaluated before",
        "evaluated after",
    ]
    columns += [f"{tag} [{line.unit}]" if (line := find(tag)) else tag for tag in shown]
    rows = [_metrics_row(view, shown) for view in found.checkpoints]
    output.table(columns, rows, right=columns[1:])
    if not shown:
        output.line(f"These steps reported nothing that matches {' or '.join(tags)}.")


def _metrics_row(view: CheckpointMetricsView, tags: Sequence[str]) -> list[str]:
    evaluations = (view.evaluation_before, view.evaluation_after)
    return [
        view.name,
        str(view.step),
        str(view.version),
        decimal(view.reward),
        *(f"{decimal(e.reward_mean)} at step {e.step}" if e else "-" for e in evaluations),
        *(figure(view.metrics[tag]) if tag in view.metrics else "-" for tag in tags),
    ]


async def _download(target: str, to: Path, gateway: Gateway) -> int:
    name, _, version = target.partition("@")
    async with connected(gateway) as client:
        run = await client.run(name, trained=True)
        folder = await run.download(to, version, reconnect_s=RETRY_S)
    size = count(sum(file.size_bytes for file in folder.files))
    make_output().line(f"{to}: {len(folder.files)} files, {size} bytes, from {folder.url}")
    return codes.OK


async def _ls(name: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        run = await client.run(name, trained=True)
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
        output.line(_NONE_YET)
    if found.policies:
        first, last = found.policies[0].step, found.step
        steps = f"step {last}" if first == last else f"steps {first} to {last}"
        output.line(
            f"The policies after {steps} are kept as well: warren export RUN@STEP --to FOLDER"
        )


def _row(view: CheckpointView) -> tuple[str, ...]:
    reward, size, made = decimal(view.reward), count(view.size_bytes), ago(view.created_s)
    return (view.name, str(view.step), str(view.version), reward, size, made, view.url)
