"""Share runs with other users, and list all that is shared."""

import asyncio
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import (
    HERE,
    AsJson,
    Everybody,
    Gateway,
    GatewayOptions,
    WithWhom,
    require_whom,
)
from warren.display.output import make_output, print_json
from warren.display.words import ago
from warren_schemas.users.access import ShareList, ShareView

Run = Annotated[str, Parameter(name="RUN", help="Id, as shown by `warren runs ls`.")]


def share(
    run: Run,
    user: WithWhom = None,
    /,
    *,
    everybody: Everybody = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Let a user, or everybody, read a run and use what it made: nobody else changes it.

    For example:
        warren share run_01k2 bob
        warren share run_01k2 --everybody
    """
    require_whom(user, everybody=everybody)
    return asyncio.run(_share(run, user, gateway, as_json=json))


def unshare(
    run: Run,
    user: WithWhom = None,
    /,
    *,
    everybody: Everybody = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Stop sharing a run with a user, or with everybody. What they read of it ends within seconds.

    For example:
        warren unshare run_01k2 bob
    """
    require_whom(user, everybody=everybody)
    return asyncio.run(_unshare(run, user, gateway, as_json=json))


def shares(*, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List what you share and what is shared with you: runs, data sets, adapters and base models.

    For example:
        warren shares
    """
    return asyncio.run(_shares(gateway, as_json=json))


async def _share(run: str, user: str | None, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.access.share(run, user)
    if as_json:
        print_json(view)
    else:
        make_output().line(f"{view.run} ({view.name}) is shared with {_whom(view)}")
    return codes.OK


async def _unshare(run: str, user: str | None, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        left = await client.access.unshare(run, user)
    if as_json:
        print_json(ShareList(shares=left))
    else:
        whom = ", ".join(map(_whom, left)) or "nobody"
        make_output().line(f"{run} is shared with {whom} now")
    return codes.OK


async def _shares(gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        shares = await client.access.shares()
    if as_json:
        print_json(ShareList(shares=shares))
        return codes.OK
    if not shares:
        make_output().line("Nothing is shared by you or with you.")
        return codes.OK
    rows = [(_kind(s), s.run or "", s.name, s.owner, _whom(s), ago(s.created_s)) for s in shares]
    make_output().table(["kind", "run", "name", "of", "shared with", "since"], rows)
    return codes.OK


def _kind(view: ShareView) -> str:
    return {"dataset": "data set", "base_model": "base model"}.get(view.kind, view.kind)


def _whom(view: ShareView) -> str:
    return "everybody" if view.user is None else view.user
