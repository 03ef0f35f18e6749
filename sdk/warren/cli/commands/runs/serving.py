"""Serve a base model, an adapter or a policy of a run under a name, which can be pointed elsewhere while it is asked.

For example:
    warren serve helper --run last@best
    warren serve helper --run last
    warren serve helper --model warren/tiny
    warren serve ls
    warren serve rm helper
"""

import asyncio
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.output import make_output, print_json
from warren.display.words import ago
from warren_schemas.http import ServedList, ServedView

__all__ = ["ls", "rm"]

Name = Annotated[str, Parameter(name="NAME", help="What requests say as `model`.")]


def ls(*, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List the names that you may use, yours first; those of others are asked as OWNER/NAME.

    For example:
        warren serve ls
    """
    return asyncio.run(_ls(gateway, as_json=json))


def rm(
    name: Name,
    /,
    *,
    owner: Annotated[str | None, Parameter(help="Whose name it is (for admins).")] = None,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Stop serving a name. Requests under way are answered.

    For example:
        warren serve rm helper
    """
    return asyncio.run(_rm(name, owner, gateway, as_json=json))


async def point(
    name: str,
    run: str | None,
    model: str | None,
    adapter: str | None,
    gateway: Gateway,
    *,
    as_json: bool,
) -> int:
    """Serve a model under a name, and say so."""
    async with connected(gateway) as client:
        view = await client.serve(name, run, model=model, adapter=adapter)
    if as_json:
        print_json(view)
    else:
        make_output().line(f"{view.name} is {_target(view)} now")
    return codes.OK


async def _ls(gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        served = await client.served()
    if as_json:
        print_json(ServedList(served=served))
        return codes.OK
    rows = [(v.name, v.owner, _target(v), v.base_model, ago(v.since_s)) for v in served]
    make_output().table(["name", "owner", "serves", "base model", "since"], rows)
    return codes.OK


async def _rm(name: str, owner: str | None, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.stop_serving(name, owner=owner)
    if as_json:
        print_json(view)
    else:
        make_output().line(f"{view.name} is served no more; it was {_target(view)}")
    return codes.OK


def _target(view: ServedView) -> str:
    if view.adapter is not None:
        return f"the adapter {view.adapter}"
    if view.run is None:
        return view.base_model
    if view.follows:
        return f"the newest policy of {view.run}"
    return f"{view.run}@{view.step} (version {view.version})"
