"""List, follow, steer and delete runs.

For example:
    warren runs ls
    warren runs show last --follow
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs import sweeps
from warren.cli.connecting import connected
from warren.cli.follow import follow as follow_run
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.configs import read_changes
from warren.display.output import make_output, print_json
from warren.display.tables import print_run, print_runs
from warren.errors import ConfigurationError
from warren.run import Run
from warren_schemas.http import RunList, RunView

__all__ = [
    "cancel",
    "compare",
    "delete",
    "finish",
    "ls",
    "pause",
    "resume",
    "retry",
    "set_",
    "show",
]

RunNameOption = Parameter(
    name="RUN",
    help="Id, end of the id, name, or `last` (the newest that goes on, else the newest).",
)
RunName = Annotated[str, RunNameOption]
OfSweep = Annotated[str | None, Parameter(help="Name of a sweep: its runs.")]


def ls(
    *,
    limit: Annotated[int, Parameter(help="Maximum number of runs.")] = 50,
    sweep: OfSweep = None,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """List your runs, newest first.

    For example:
        warren runs ls
        warren runs ls --sweep rates
        warren runs ls --json
    """
    return asyncio.run(_ls(gateway, limit, sweep, as_json=json))


def compare(
    *runs: RunName,
    sweep: OfSweep = None,
    metric: Annotated[
        str | None,
        Parameter(help="Tag; by default the reward in evaluations, or in training."),
    ] = None,
    lowest: Annotated[bool, Parameter(help="The lowest value is the best.")] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Compare runs, or those of a sweep: the keys in which they differ, and the best of a metric.

    For example:
        warren runs compare --sweep rates
        warren runs compare monday tuesday --metric policy/kl_k3 --lowest
    """
    found = asyncio.run(sweeps.compare(runs, sweep, metric, gateway, lowest=lowest))
    if json:
        print_json(found)
    else:
        sweeps.print_run_comparison(found, make_output())
    return codes.OK


def show(
    run: RunName,
    /,
    *,
    follow: Annotated[bool, Parameter(help="Follow it from its start until it ends.")] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Show a run; with --follow, reattach to a detached run.

    For example:
        warren runs show last --follow
        warren runs show run_019aa3b7a1c04e5d90ab17ce21d3 --json
    """
    return asyncio.run(_show(run, gateway, is_followed=follow, as_json=json))


def cancel(
    run: Annotated[str | None, RunNameOption] = None,
    /,
    *,
    sweep: OfSweep = None,
    save: Annotated[bool, Parameter(help="Save a checkpoint first.")] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Cancel a run, or all runs of a sweep. Checkpoints are kept.

    For example:
        warren runs cancel last
        warren runs cancel last --save
        warren runs cancel --sweep rates
    """
    if (run is None) == (sweep is None):
        raise ConfigurationError("Say what to cancel: either a run or --sweep NAME")
    if sweep is not None:
        if json:
            raise ConfigurationError(
                "--json goes with one run", hint="`warren runs ls --sweep NAME --json`"
            )
        return asyncio.run(sweeps.cancel_sweep(sweep, gateway, save=save))
    assert run is not None
    return asyncio.run(_cancel(run, gateway, save=save, as_json=json))


def finish(run: RunName, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """End a run early, as completed.

    It takes no more steps: those whose batches are complete are trained, episodes in flight are dropped. Then come
    the evaluation after training, if the config has one, and a checkpoint.

    For example:
        warren runs finish last
    """
    asked = "takes no more steps, and completes once it is saved"
    return asyncio.run(_steer(run, gateway, Run.finish, asked, as_json=json))


def pause(run: RunName, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Save a run and give its trainer to others, until it is resumed.

    Episodes in flight are ended, and start again when it goes on.

    For example:
        warren runs pause last
    """
    asked = f"is saved, and then holds no trainer; go on with: warren runs resume {run}"
    return asyncio.run(_steer(run, gateway, Run.pause, asked, as_json=json))


def resume(run: RunName, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Resume a paused run; it queues for a trainer like any other.

    For example:
        warren runs resume last
    """
    return asyncio.run(_steer(run, gateway, Run.resume, "goes on", as_json=json))


def set_(
    run: RunName,
    /,
    *changes: Annotated[
        str,
        Parameter(
            name="KEY=VALUE",
            help="`limits.KEY=VALUE`, `priority=NUMBER` or `on_disconnect=detach`; repeatable.",
        ),
    ],
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Change limits and the priority of an unfinished run.

    Jobs of a higher priority (-100 to 100; above 0 takes an admin's key) go first, whoever owns them. A run that has
    its trainer keeps it. docs/training.md says which limits can be changed. `on_disconnect=detach` lets a run go on
    that would end with its client.

    For example:
        warren runs set last limits.steps=400 limits.stop_at_reward=0.9
        warren runs set last priority=-10
    """
    read = read_changes(changes)
    ask = partial(
        Run.set,
        priority=read.priority,
        limits=read.limits,
        on_disconnect=read.on_disconnect,
    )
    asked = f"goes on with {', '.join(changes)}"
    return asyncio.run(_steer(run, gateway, ask, asked, as_json=json))


def retry(run: RunName, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Continue a failed or cancelled run as a new run, from its newest checkpoint.

    The new run has the same config; `warren runs show` links the two. Retrying again gives the same new run.

    For example:
        warren runs retry last
        warren runs retry run_019aa3b7a1c04e5d90ab17ce21d3
    """
    return asyncio.run(_retry(run, gateway, as_json=json))


def delete(run: RunName, /, *, gateway: GatewayOptions = HERE) -> int:
    """Delete an ended run with its recording, checkpoints and policies, for good.

    For example:
        warren runs delete run_019aa3b7a1c04e5d90ab17ce21d3
    """
    return asyncio.run(_delete(run, gateway))


async def _ls(gateway: Gateway, limit: int, sweep: str | None, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        views = [run.view for run in await client.runs(limit=limit, sweep=sweep)]
    if as_json:
        print_json(RunList(runs=tuple(views)))
    else:
        print_runs(views, make_output())
    return codes.OK


async def _show(name: str, gateway: Gateway, *, is_followed: bool, as_json: bool) -> int:
    output = make_output()
    async with connected(gateway) as client:
        run = await client.run(name)
        if is_followed:
            return await follow_run(client, run, output, as_json=as_json)
    if as_json:
        print_json(run.view)
    else:
        print_run(run.view, output)
    return codes.OK


async def _cancel(name: str, gateway: Gateway, *, save: bool, as_json: bool) -> int:
    async with connected(gateway) as client:
        run = await client.run(name)
        was_over = run.state.is_final
        await run.cancel(save=save)
    if as_json:
        print_json(run.view)
    elif was_over:
        make_output().line(f"{run.id} had ended already: {run.state}")
    else:
        make_output().line(f"{run.id} is being cancelled")
    return codes.OK


async def _steer(
    name: str,
    gateway: Gateway,
    ask: Callable[[Run], Coroutine[object, None, RunView]],
    asked: str,
    *,
    as_json: bool,
) -> int:
    async with connected(gateway) as client:
        run = await client.run(name)
        await ask(run)
    if as_json:
        print_json(run.view)
    else:
        make_output().line(f"{run.id} {asked}")
    return codes.OK


async def _retry(name: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        run = await client.run(name)
        successor = await run.retry()
    if as_json:
        print_json(successor.view)
    else:
        make_output().line(f"{successor.id} goes on for {run.id}")
    return codes.OK


async def _delete(name: str, gateway: Gateway) -> int:
    async with connected(gateway) as client:
        run = await client.run(name, only_one=True)
        await run.delete()
    make_output().line(f"{run.id} is deleted")
    return codes.OK
