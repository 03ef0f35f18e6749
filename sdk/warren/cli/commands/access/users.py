"""Add, list, limit, disable and remove users of the gateway (for admins).

For example:
    warren users add ann
    warren users set ann --runs-running 4 --gpu-weight 2
    warren users ls
"""

import asyncio
from typing import Annotated, Literal

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.output import make_output, print_json
from warren.display.words import ago, count
from warren.errors import ConfigurationError
from warren_schemas.users.access import UserAdded, UserList, UserView
from warren_schemas.users.limits import UserDetails

__all__ = ["add", "disable", "enable", "ls", "rm", "set_", "show"]

Count = int | Literal["default"] | None
Number = float | Literal["default"] | None
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


def show(user: User, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Show the limits of a user and what of them is in use; your own, or for admins anybody's.

    For example:
        warren users show ann
    """
    return asyncio.run(_show(user, gateway, as_json=json))


def set_(
    user: User,
    /,
    *,
    runs_queued: Annotated[Count, Parameter(help="Runs that wait for their start.")] = None,
    runs_running: Annotated[Count, Parameter(help="Runs at work at once.")] = None,
    episodes_in_flight: Annotated[Count, Parameter(help="Episodes played at once.")] = None,
    evaluated_models_per_hour: Annotated[
        Count, Parameter(help="Base models loaded in an hour for evaluations alone.")
    ] = None,
    gpu_weight: Annotated[
        Number, Parameter(help="Share of the GPUs: 2 is twice that of 1.")
    ] = None,
    stored_gib: Annotated[
        Number, Parameter(help="GiB of checkpoints, policies, data sets and adapters.")
    ] = None,
    requests_per_s: Annotated[Number, Parameter(help="Requests per second, sustained.")] = None,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Set limits of a user; those that are left out stay, and `default` is the gateway's again.

    For example:
        warren users set ann --runs-queued 50 --runs-running 4 --episodes-in-flight 500
        warren users set ann --gpu-weight 2 --stored-gib 100 --requests-per-s 20
        warren users set ann --gpu-weight default
    """
    given: dict[str, float | str | None] = {
        "runs_queued": runs_queued,
        "runs_running": runs_running,
        "episodes_in_flight": episodes_in_flight,
        "evaluated_models_per_hour": evaluated_models_per_hour,
        "gpu_weight": gpu_weight,
        "stored_gib": stored_gib,
        "requests_per_s": requests_per_s,
    }
    limits = {name: _limit(value) for name, value in given.items() if value is not None}
    return asyncio.run(_set(user, limits, gateway, as_json=json))


def _limit(value: float | str) -> float | None:
    return None if isinstance(value, str) else value


async def _add(user: str, gateway: Gateway, *, is_admin: bool, as_json: bool) -> int:
    async with connected(gateway) as client:
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
    async with connected(gateway) as client:
        users = await client.access.users()
    if as_json:
        print_json(UserList(users=users))
        return codes.OK
    columns = ["user", "state", "keys", "active runs", "since"]
    make_output().table(columns, [_row(user) for user in users], right=["keys", "active runs"])
    return codes.OK


async def _change(action: str, user: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
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


async def _show(user: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        details = await client.access.user(user)
    _print_details(details, as_json=as_json)
    return codes.OK


async def _set(
    user: str, limits: dict[str, float | None], gateway: Gateway, *, as_json: bool
) -> int:
    if not limits:
        raise ConfigurationError(
            "Say which limit to set", hint="`warren users set --help` lists them."
        )
    async with connected(gateway) as client:
        details = await client.access.set_limits(user, **limits)
    _print_details(details, as_json=as_json)
    return codes.OK


def _print_details(details: UserDetails, *, as_json: bool) -> None:
    if as_json:
        return print_json(details)
    output = make_output()
    output.line(f"{details.user.name}{' (admin)' if details.user.is_admin else ''}", "bold")
    rows = [
        (
            limit.name.replace("_", "-"),
            "" if limit.used is None else f"{limit.used:,.4g}",
            f"{limit.limit:,.10g}",
            "default" if limit.is_default else "set",
        )
        for limit in details.limits
    ]
    return output.table(["limit", "in use", "may have", "by"], rows, right=["in use", "may have"])


def _row(user: UserView) -> tuple[str, ...]:
    state = "disabled" if user.disabled_s else "admin" if user.is_admin else "user"
    return (user.name, state, count(user.n_keys), count(user.n_active_runs), ago(user.created_s))
