"""Who you are to the gateway, and who changed what."""

import asyncio
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.access.keys import print_keys
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.output import make_output, print_json
from warren.display.words import ago
from warren_schemas.users.access import AuditEntry, AuditList


def whoami(*, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Show whom your key belongs to and what it may do.

    For example:
        warren whoami
    """
    return asyncio.run(_whoami(gateway, as_json=json))


def audit(
    *,
    user: Annotated[str | None, Parameter(help="Only what this user did.")] = None,
    limit: Annotated[int, Parameter(help="Maximum number of entries.")] = 100,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """List who changed what, newest first (for admins).

    For example:
        warren audit --user ann
    """
    return asyncio.run(_audit(user, limit, gateway, as_json=json))


async def _whoami(gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        identity = await client.access.whoami()
    if as_json:
        print_json(identity)
        return codes.OK
    output = make_output()
    output.line(f"{identity.user}{' (admin)' if identity.is_admin else ''}", "bold")
    print_keys((identity.key,), output)
    return codes.OK


async def _audit(user: str | None, limit: int, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        entries = await client.access.audit(user=user, limit=limit)
    if as_json:
        print_json(AuditList(entries=entries))
        return codes.OK
    columns = ["when", "user", "key", "action", "path", "answer"]
    make_output().table(columns, [_row(entry) for entry in entries], right=["answer"])
    return codes.OK


def _row(entry: AuditEntry) -> tuple[str, ...]:
    answer = "unknown" if entry.status is None else str(entry.status)
    return (ago(entry.at_s), entry.user, entry.key, entry.action, entry.path, answer)
