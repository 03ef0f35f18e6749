"""Create, list, rotate and revoke API keys.

For example:
    warren keys create laptop --scope read --days 30
    warren keys ls
"""

import asyncio
import time
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.output import Output, make_output, print_json
from warren.display.words import ago, duration
from warren_schemas.users.access import USER_SCOPES, KeyList, KeyScope, KeyView, NewKey

__all__ = ["create", "ls", "revoke", "rotate"]

DAY_S = 86_400.0

KeyId = Annotated[str, Parameter(name="KEY", help="Id, as shown by `warren keys ls`.")]
Whose = Annotated[str | None, Parameter(help="Of this user (for admins).")]


def create(
    name: Annotated[str, Parameter(name="NAME", help="What you call it.")] = "key",
    /,
    *,
    scope: Annotated[
        tuple[KeyScope, ...],
        Parameter(help="What it may do; several times for several scopes."),
    ] = USER_SCOPES,
    days: Annotated[float | None, Parameter(help="Expire after so many days.")] = None,
    user: Whose = None,
    tinker: Annotated[
        bool, Parameter(help="Print it as Tinker's clients take it: with `tml-` before it.")
    ] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Create a key that may do no more than yours, and print it. It is shown this once.

    For example:
        warren keys create laptop --days 90
        warren keys create dashboard --scope read
        warren keys create --user ann
        warren keys create --tinker
    """
    lifetime_s = None if days is None else days * DAY_S
    return asyncio.run(_create(name, scope, lifetime_s, user, gateway, tinker=tinker, as_json=json))


def ls(*, user: Whose = None, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List your keys, newest first; for admins those of all users.

    For example:
        warren keys ls
        warren keys ls --user ann
    """
    return asyncio.run(_ls(user, gateway, as_json=json))


def rotate(
    key: KeyId,
    /,
    *,
    overlap_s: Annotated[float, Parameter(help="Seconds for which the old one is good.")] = 0.0,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Create a key in the place of another one, and print it. It is shown this once.

    For example:
        warren keys rotate 3f9a1c0b2d4e --overlap-s 3600
    """
    return asyncio.run(_rotate(key, overlap_s, gateway, as_json=json))


def revoke(key: KeyId, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Refuse a key from now on. Open streams of it end within seconds.

    For example:
        warren keys revoke 3f9a1c0b2d4e
    """
    return asyncio.run(_revoke(key, gateway, as_json=json))


async def _create(
    name: str,
    scopes: tuple[KeyScope, ...],
    lifetime_s: float | None,
    user: str | None,
    gateway: Gateway,
    *,
    tinker: bool,
    as_json: bool,
) -> int:
    async with connected(gateway) as client:
        made = await client.access.create_key(name, scopes=scopes, lifetime_s=lifetime_s, user=user)
    if tinker:
        made = made.model_copy(update={"key": f"tml-{made.key}"})
    _print_new(made, as_json=as_json)
    return codes.OK


async def _ls(user: str | None, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        keys = await client.access.keys(user=user)
    if as_json:
        print_json(KeyList(keys=keys))
    else:
        print_keys(keys, make_output())
    return codes.OK


async def _rotate(key: str, overlap_s: float, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        made = await client.access.rotate_key(key, overlap_s=overlap_s)
    _print_new(made, as_json=as_json)
    return codes.OK


async def _revoke(key: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.access.revoke_key(key)
    if as_json:
        print_json(view)
    else:
        make_output().line(f"{view.id} ({view.name} of {view.user}) is revoked")
    return codes.OK


def print_keys(keys: tuple[KeyView, ...], output: Output) -> None:
    columns = ["key", "name", "user", "scopes", "created", "last used", "state"]
    output.table(columns, [_row(key) for key in keys])


def _row(key: KeyView) -> tuple[str, ...]:
    used = "never" if key.last_used_s is None else ago(key.last_used_s)
    scopes = ", ".join(sorted(key.scopes))
    return (key.id, key.name, key.user, scopes, ago(key.created_s), used, _state(key))


def _state(key: KeyView) -> str:
    if key.revoked_s is not None:
        return "revoked"
    if key.expires_s is None:
        return "good"
    left_s = key.expires_s - time.time()
    return f"expires in {duration(left_s)}" if left_s > 0 else "expired"


def _print_new(made: NewKey, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    output, view = make_output(), made.view
    output.line(
        f"{view.name} of {view.user} may {', '.join(sorted(view.scopes))}. Shown this once:"
    )
    output.line("")
    output.line(f"    {made.key}", "bold")
