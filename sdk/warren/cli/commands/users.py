"""Add, list, disable and remove users of the gateway (for admins).

For example:
    warren users add ann
    warren users ls
"""

import asyncio
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.options import HERE, RETRY_S, AsJson, Gateway, GatewayOptions
from warren.client import Client, connect
from warren.display.output import make_output, print_json
from warren.display.words import ago, count
from warren_schemas.access import UserAdded, UserList, UserView

__all__ = ["add", "disable", "enable", "ls", "rm"]

User = Annotated[str, Parameter(name="USER", help="Name, as shown by `warren users ls`.")]


def add(
    user: Annotated[str, Parameter(name="USER", help="Small letters, digits, `.`, `-` and `_`.")],
    /,
    *,
    admin: Annotated[bool, Parameter(help="Let keys of this user do everything.")] = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Add a user, and print a first key for them. The key is shown this once.

    For example:
        warren users add ann
        warren users add root --admin
    """
    return asyncio.run(_add(user, gateway, is_admin=admin, as_json=json))


def ls(*, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List users, with their keys that can be used and their runs that are not over.

    For example:
        warren users ls
    """
    return asyncio.run(_ls(gateway, as_json=json))


def disable(user: User, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Refuse all keys of a user until they are enabled again. Their runs go on.

    For example:
        warren users disable ann
    """
    return asyncio.run(_change("disable", user, gateway, as_json=json))


def enable(user: User, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Take the keys of a disabled user again.

    For example:
        warren users enable ann
    """
    return asyncio.run(_change("enable", user, gateway, as_json=json))


def rm(user: User, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Remove a user whose runs are over, for good: nobody gets the name again.

    For example:
        warren users rm ann
    """
    return asyncio.run(_change("remove", user, gateway, as_json=json))


async def _add(user: str, gateway: Gateway, *, is_admin: bool, as_json: bool) -> int:
    async with _client(gateway) as client:
        added = await client.access.add_user(user, is_admin=is_admin)
    if as_json:
        print_json(added)
    else:
        _print_added(added)
    return codes.OK


def _print_added(added: UserAdded) -> None:
    output = make_output()
    output.line(f"{added.user.name} is added. This is their first key, shown this once:")
    output.line("")
    output.line(f"    {added.first_key.key}", "bold")
    output.line("")
    output.line("They use it with: export WARREN_API_KEY=KEY", "dim")


async def _ls(gateway: Gateway, *, as_json: bool) -> int:
    async with _client(gateway) as client:
        users = await client.access.users()
    if as_json:
        print_json(UserList(users=users))
        return codes.OK
    columns = ["user", "state", "keys", "active runs", "since"]
    make_output().table(columns, [_row(user) for user in users], right=["keys", "active runs"])
    return codes.OK


async def _change(action: str, user: str, gateway: Gateway, *, as_json: bool) -> int:
    async with _client(gateway) as client:
        access = client.access
        change = {
            "disable": access.disable_user,
            "enable": access.enable_user,
            "remove": access.remove_user,
        }
        view = await change[action](user)
    if as_json:
        print_json(view)
    else:
        make_output().line(f"{view.name} is {action}d")
    return codes.OK


def _row(user: UserView) -> tuple[str, ...]:
    state = "disabled" if user.disabled_s else "admin" if user.is_admin else "user"
    return (user.name, state, count(user.n_keys), count(user.n_active_runs), ago(user.created_s))


def _client(gateway: Gateway) -> Client:
    return connect(gateway.url, gateway.api_key, retry_s=RETRY_S)
