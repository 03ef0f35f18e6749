"""List workers, and drain those that are to be stopped.

`warren workers` alone lists them.

For example:
    warren workers
    warren workers drain trainer_019aa3b7a1c04e5d90ab17ce21d3
"""

import asyncio
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.output import make_output, print_json
from warren.display.tables import print_workers
from warren_schemas.http import WorkerList

__all__ = ["drain", "ls", "undrain"]

WorkerName = Annotated[str, Parameter(name="WORKER", help="Id, as shown by `warren workers`.")]


def ls(*, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List the workers online: samplers, trainers, env workers.

    For example:
        warren workers
        warren workers ls --json
    """
    return asyncio.run(_ls(gateway, as_json=json))


def drain(worker: WorkerName, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Drain a worker: it takes no new work, so that it can be stopped without affecting any run (for admins).

    A trainer's models are saved and go to other trainers; a sampler finishes its turns, an env worker its episodes.
    `warren workers` shows when it is idle. A GPU worker has two ids, one for each role. Draining ends with the
    worker's process, or with `undrain`.

    For example:
        warren workers drain trainer_019aa3b7a1c04e5d90ab17ce21d3
    """
    told = "takes no new work; `warren workers` shows when it is idle"
    return asyncio.run(_drain(worker, gateway, told, undo=False, as_json=json))


def undrain(worker: WorkerName, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Stop draining a worker (for admins).

    For example:
        warren workers undrain trainer_019aa3b7a1c04e5d90ab17ce21d3
    """
    return asyncio.run(_drain(worker, gateway, "takes work again", undo=True, as_json=json))


async def _ls(gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        found = await client.workers()
    if as_json:
        print_json(WorkerList(workers=found))
    else:
        print_workers(found, make_output())
    return codes.OK


async def _drain(worker: str, gateway: Gateway, told: str, *, undo: bool, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.access.drain_worker(worker, undo=undo)
    if as_json:
        print_json(view)
    else:
        make_output().line(f"{view.id} {told}")
    return codes.OK
